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

// command returns the text of a command to be copied, which may be longer than other
// text.
func command(line string) text.Safe { return text.Trusted(text.Cut(line, maxCommand)) }

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// shellWord quotes a word for a shell, so that a copied command has the words that it
// shows. Unprintable characters are shown as escapes that the shell does not interpret,
// so a command that contains one fails.
func shellWord(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(text.Line(s), "'", `'\''`) + "'"
}

// redacted returns a URL that may be shown, without its user name and password.
func redacted(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil { // unknown where a password would be
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
