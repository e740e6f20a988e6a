package main

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/nodelease/nodelease/internal/text"
)

// maxCommand is the longest command that is shown. The longest command needed, which
// contains a policy for a role, has about 600 characters.
const maxCommand = 4096

// command returns a command for people to copy. It may be longer than other text that is
// shown.
func command(line string) text.Safe { return text.Trusted(text.Cut(line, maxCommand)) }

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// shellWord quotes a word for a shell, so that the shell reads the word as it is shown.
// Unprintable characters are shown as escapes that the shell does not interpret, so a
// copied command that contains one fails.
func shellWord(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(text.Line(s), "'", `'\''`) + "'"
}

// redacted returns a URL that may be shown, without its user name and password.
func redacted(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil { // a password could be anywhere in it
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
