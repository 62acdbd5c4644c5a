// SPDX-License-Identifier: Apache-2.0

// What was probably meant by a mistyped word.

package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"loci/config/codec"
)

// Nearest is the word of a list that a mistyped one is closest to, "" when none is close. A word that begins with it is.
func Nearest(word string, list []string) string {
	if near := codec.Nearest(word, list); near != "" || len(word) < 3 {
		return near
	}
	for _, candidate := range list {
		if strings.HasPrefix(candidate, word) {
			return candidate
		}
	}
	return ""
}

// DidYouMean is a hint at what was meant, behind an error's text; "" without one.
func DidYouMean(word string, list []string) string {
	if near := Nearest(word, list); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// unknownCommand says that there is no such subcommand, and which one was meant. It is nil without a word.
func unknownCommand(cmd *cobra.Command, arguments []string) error {
	for _, word := range arguments {
		if strings.HasPrefix(word, "-") {
			continue
		}
		var names []string
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				names = append(append(names, sub.Name()), sub.Aliases...)
			}
		}
		return fmt.Errorf("unknown command %q for %q%s", word, cmd.CommandPath(), DidYouMean(word, names))
	}
	return nil
}

// withNearestFlag adds to an error about a flag that does not exist which one was meant.
func withNearestFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || len(unknown.GetSpecifiedName()) < 2 {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if near := Nearest(unknown.GetSpecifiedName(), names); near != "" {
		return fmt.Errorf("%w; did you mean --%s?", err, near)
	}
	return err
}
