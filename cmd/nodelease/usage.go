package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagError says of a flag that was not understood which value was wrong and
// what to give, in place of what the parser of the value says.
func flagError(_ *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	var unknown *pflag.NotExistError
	switch {
	case errors.As(err, &value):
		use := map[string]string{
			"int": "a whole number", "int64": "a whole number", "uint64": "a whole number that is not negative",
			"duration": "a duration such as 500ms, 90s or 1h30m", "bool": "true or false",
		}[value.GetFlag().Value.Type()]
		if use != "" {
			return usagef("--%s %s: use %s", value.GetFlag().Name, value.GetValue(), use)
		}
	case errors.As(err, &unknown) && strings.Trim(unknown.GetSpecifiedShortnames(), "0123456789") == "" && unknown.GetSpecifiedShortnames() != "":
		return usagef("-%s is no flag, and no node ID or ID is negative", unknown.GetSpecifiedShortnames())
	}
	return &usageError{err}
}

// noCommand refuses a name that is none, with those that look like it.
func noCommand(parent *cobra.Command, what, name string) error {
	near := ""
	if names := parent.SuggestionsFor(name); len(names) > 0 {
		near = "; did you mean " + strings.Join(names, " or ") + "?"
	}
	return usagef("no %s %q%s", what, name, near)
}

// strictHelp lets help and completion refuse what they do not know: as cobra
// makes them they print a page and end with 0, which a script takes for the
// answer.
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
					return fmt.Errorf("%w: use bash, zsh, fish or powershell", noCommand(cmd, "shell", args[0]))
				}
				return cmd.Help()
			}
		}
	}
}
