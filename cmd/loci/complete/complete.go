// SPDX-License-Identifier: Apache-2.0

// Package complete completes words of a command line for the shell, by what a running daemon knows. A daemon that does not
// answer at once leaves the word as it is: a shell waits for nothing.
package complete

import (
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"loci/daemon/api"
	"loci/lisp"
)

const (
	// patience bounds how long the daemon may take.
	patience = 500 * time.Millisecond
	// mostAsked and mostShown bound the entries that are read, and the words that are offered.
	mostAsked = 1000
	mostShown = 50
)

// client asks the daemon of the command's --socket, or of the usual one.
func client(cmd *cobra.Command) *api.Client {
	socket, err := cmd.Flags().GetString("socket")
	if err != nil {
		socket = api.DefaultSocket
	}
	return api.NewClient(socket)
}

func none() ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// EIDs completes an EID-Prefix of the map-cache, of this site, or of a registration.
func EIDs(cmd *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, stop := context.WithTimeout(cmd.Context(), patience)
	defer stop()
	c, query := client(cmd), api.ListQuery{EIDPrefix: within(begun), Limit: mostAsked}
	var words []string
	words = prefixes(words, begun, c.EachMapCache(ctx, query), func(e api.MapCacheEntry) lisp.Prefix { return e.EIDPrefix })
	words = prefixes(words, begun, c.EachDatabase(ctx, query), func(e api.DatabaseEntry) lisp.Prefix { return e.EIDPrefix })
	words = prefixes(words, begun, c.EachRegistrations(ctx, query), func(e api.Registration) lisp.Prefix { return e.EIDPrefix })
	slices.Sort(words)
	words = slices.Compact(words)
	return words[:min(len(words), mostShown)], cobra.ShellCompDirectiveNoFileComp
}

// FirstEID is EIDs for the first argument alone.
func FirstEID(cmd *cobra.Command, arguments []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(arguments) > 0 {
		return none()
	}
	return EIDs(cmd, arguments, begun)
}

// FirstHost completes the first argument to the first EID of an EID-Prefix, for a command that takes one EID. The word is left open:
// its end may be another one.
func FirstHost(cmd *cobra.Command, arguments []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(arguments) > 0 {
		return none()
	}
	words, _ := EIDs(cmd, arguments, begun)
	for i, word := range words {
		words[i], _, _ = strings.Cut(word, "/")
	}
	slices.Sort(words)
	words = slices.DeleteFunc(slices.Compact(words), func(word string) bool { return !strings.HasPrefix(word, begun) })
	return words, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}

// prefixes appends those of a list that begin as the word does.
func prefixes[T any](words []string, begun string, list iter.Seq2[T, error], prefixOf func(T) lisp.Prefix) []string {
	for entry, err := range list {
		if err != nil {
			return words
		}
		if word := prefixOf(entry).String(); strings.HasPrefix(word, begun) {
			words = append(words, word)
		}
	}
	return words
}

// within is the EID-Prefix that all EIDs are in which begin with a text; zero where it says too little.
func within(begun string) lisp.Prefix {
	instance, text := "", begun
	if end := strings.Index(begun, "]"); strings.HasPrefix(begun, "[") && end > 0 {
		instance, text = begun[:end+1], begun[end+1:]
	}
	whole := ""
	switch octets, groups := strings.Split(text, "."), strings.Split(text, ":"); {
	case len(octets) > 1 && len(octets) <= 4:
		known := octets[:len(octets)-1] // the last may go on
		whole = strings.Join(append(slices.Clone(known), slices.Repeat([]string{"0"}, 4-len(known))...), ".") + "/" + strconv.Itoa(8*len(known))
	case len(groups) > 1 && len(groups) < 8 && !strings.Contains(text, "::"):
		known := groups[:len(groups)-1]
		whole = strings.Join(known, ":") + "::/" + strconv.Itoa(16*len(known))
	}
	p, err := lisp.ParsePrefix(instance + whole)
	if err != nil {
		return lisp.Prefix{}
	}
	return p
}

// Interfaces completes an interface that the daemon uses, behind the words in and out of `loci trace`.
func Interfaces(cmd *cobra.Command, arguments []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(arguments) == 0 {
		return []string{"in", "out", "src", "dst", "rloc", "local"}, cobra.ShellCompDirectiveNoFileComp
	}
	if last := arguments[len(arguments)-1]; last != "in" && last != "out" {
		return none()
	}
	ctx, stop := context.WithTimeout(cmd.Context(), patience)
	defer stop()
	answer, err := client(cmd).Interfaces(ctx)
	if err != nil {
		return none()
	}
	var names []string
	for _, i := range answer.Interfaces {
		names = append(names, i.Name)
	}
	slices.Sort(names)
	return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
}

// Words completes one of a list.
func Words(list []string) cobra.CompletionFunc {
	return cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp)
}
