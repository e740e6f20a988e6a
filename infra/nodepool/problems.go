package nodepool

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// problems collects what is wrong with the use of a construct and makes the synthesis fail with all of it at once. CDK's own errors would
// stop at the first one, and with a stack trace.
type problems struct {
	errs  []error
	later []func() error // checks that are possible only at the end
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

// addLater adds a check that runs when nothing of the app changes any more.
func (p *problems) addLater(check func() error) { p.later = append(p.later, check) }

func (p *problems) addf(format string, args ...any) { p.add(fmt.Errorf(format, args...)) }

func (p *problems) any() bool { return len(p.errs) > 0 }

// Validate is called by CDK after the last aspect and before it writes the templates.
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
