package nodepool

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// problems collects all mistakes in the use of a construct, and makes the synthesis fail with all of them at once. If each threw an error,
// CDK would stop at the first one, with a stack trace.
type problems struct {
	errs  []error
	later []func() error // checks that run at the end
}

func watch(c constructs.Construct) *problems {
	p := &problems{}
	c.Node().AddValidation(p)
	return p
}

func (p *problems) add(err error) {
	if err != nil {
		p.errs = append(p.errs, err)
	}
}

// addLater adds a check that runs once the app no longer changes.
func (p *problems) addLater(check func() error) { p.later = append(p.later, check) }

func (p *problems) addf(format string, args ...any) { p.add(fmt.Errorf(format, args...)) }

func (p *problems) any() bool { return len(p.errs) > 0 }

// Validate runs the checks of addLater and returns all problems. CDK calls it after the last aspect and before it writes the templates.
func (p *problems) Validate() *[]*string {
	for _, check := range p.later {
		p.add(check())
	}
	p.later = nil
	if !p.any() {
		return &[]*string{}
	}
	lines := strings.Split(errors.Join(p.errs...).Error(), "\n")
	return jsii.Strings(lines...)
}
