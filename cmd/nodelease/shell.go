package main

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/nodelease/nodelease/internal/text"
)

// maxCommand is the longest command that is shown: a policy for a role has some
// 600 characters.
const maxCommand = 4096

// command is a command to be copied, longer than other text may be.
func command(line string) text.Safe { return text.Trusted(text.Cut(line, maxCommand)) }

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// shellWord quotes a word for a shell, so that a command that is copied has the
// words that it shows. Unprintable characters are shown as escapes, which name
// nothing: a command with one fails.
func shellWord(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(text.Line(s), "'", `'\''`) + "'"
}

// redacted is a URL that may be shown: without its password, and without the name
// that goes with it.
func redacted(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil { // it cannot be told where a password would be
		if before, after, found := strings.Cut(endpoint, "@"); found {
			scheme, _, _ := strings.Cut(before, "//")
			return scheme + "//xxxxx@" + after
		}
		return endpoint
	}
	if u.User != nil {
		u.User = url.User("xxxxx")
	}
	return u.String()
}
