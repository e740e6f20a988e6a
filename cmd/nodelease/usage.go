package main

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagError names the unknown flag, or the invalid value and the valid ones, instead of
// showing the message of the value's parser.
func flagError(cmd *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	switch {
	case errors.As(err, &value):
		use := map[string]string{
			"int": "a whole number", "int64": "a whole number", "uint64": "a whole number that is not negative",
			"duration": "a duration such as 500ms, 90s or 1h30m", "bool": "true or false",
		}[value.GetFlag().Value.Type()]
		if use != "" {
			return usagef("--%s %s: use %s", value.GetFlag().Name, value.GetValue(), use)
		}
	case errors.As(err, &missing):
		return usagef("--%s needs a value", missing.GetSpecifiedName())
	case errors.As(err, &unknown):
		short := unknown.GetSpecifiedShortnames()
		switch {
		case short != "" && strings.Trim(short, "0123456789") == "":
			return usagef("-%s is not a flag; node IDs and IDs are never negative", short)
		case short != "":
			return usagef("unknown flag -%s", short)
		}
		name := unknown.GetSpecifiedName()
		if near := nearest(name, flagNames(cmd)); near != "" {
			return usagef("unknown flag --%s; did you mean --%s?", name, near)
		}
		return usagef("unknown flag --%s", name)
	}
	return &usageError{err}
}

func flagNames(cmd *cobra.Command) (names []string) {
	add := func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	}
	cmd.Flags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	return names
}

// nearest returns the name that s is most likely a mistyped form of: at most two typing
// errors away, or beginning with s. It returns "" if there is no such name.
func nearest(s string, names []string) string {
	best, least := "", 3
	for _, name := range names {
		d := distanceOf(s, name)
		if d == 2 && sameLetters(s, name) {
			d = 1 // two letters were swapped
		}
		if len(s) > 2 && strings.HasPrefix(name, s) {
			d = 1
		}
		if d < least && d < len(name) {
			best, least = name, d
		}
	}
	return best
}

func sameLetters(a, b string) bool {
	x, y := []byte(a), []byte(b)
	slices.Sort(x)
	slices.Sort(y)
	return bytes.Equal(x, y)
}

// distanceOf returns how many characters must be inserted, deleted or changed to make b
// from a (the Levenshtein distance).
func distanceOf(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j := range b {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// noCommand rejects an unknown command name and suggests the closest match.
func noCommand(parent *cobra.Command, what, name string) error {
	var names []string
	for _, c := range parent.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
			names = append(names, c.Aliases...)
		}
	}
	if near := nearest(name, names); near != "" {
		return usagef("no %s %q; did you mean %s?", what, name, near)
	}
	return usagef("no %s %q", what, name)
}

// strictHelp makes help and completion refuse unknown names. By default, cobra prints a
// page and exits with 0, which a script takes for the answer.
func strictHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Args = func(_ *cobra.Command, args []string) error {
				if cmd, rest, err := root.Find(args); err != nil || len(rest) > 0 {
					return noCommand(cmd, "command", strings.Join(args, " "))
				}
				return nil
			}
		case "completion":
			c.Args = cobra.ArbitraryArgs
			c.RunE = func(cmd *cobra.Command, args []string) error {
				if len(args) > 0 {
					return usagef("no shell %q: use bash, zsh, fish or powershell", args[0])
				}
				return cmd.Help()
			}
		}
	}
}
