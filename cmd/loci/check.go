// SPDX-License-Identifier: Apache-2.0

package main

// loci check: is a configuration right, without running it?

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"loci/config"
	"loci/config/source"
	"loci/daemon"
	"loci/daemon/api"
	"loci/daemon/engines"
	"loci/internal/command"
	"loci/internal/jsondoc"
)

func newCheckCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check [FILE]...",
		Short: "Check configuration files without running them",
		Long: `Check configuration files, ` + defaultConfigFile + ` without one, and report every
problem and every warning with file, line and column, and the line itself.
Exit status 0 when all files are right, 1 when one is not. --json prints the configuration
in effect, with defaults and masked secrets, and problems and warnings with file,
line, column, key and hint. The command also looks at this host's pin-directory.
As root it warns of rules of this host for forwarded
packets that LISP packets would bypass.`,
		Example: `  loci check
  loci check --json xtr.yaml`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, files []string) error {
			if len(files) == 0 {
				files = []string{defaultConfigFile}
			}
			failed := false
			for _, file := range files {
				ok, err := checkFile(cmd.OutOrStdout(), file, asJSON)
				if err != nil {
					return err
				}
				failed = failed || !ok
			}
			if failed {
				return &command.Exit{Status: command.StatusProblems, Err: errors.New("a configuration is wrong"), Quiet: true}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a file")
	return cmd
}

// checkResult is what --json prints of one file.
type checkResult struct {
	File     string              `json:"file"`
	OK       bool                `json:"ok"`
	Problems []api.ConfigProblem `json:"problems"`
	Warnings []api.ConfigProblem `json:"warnings"`
	Config   *config.Config      `json:"config"` // nil with problems
}

func checkFile(out io.Writer, file string, asJSON bool) (ok bool, err error) {
	loaded, err := config.Load(file)
	var warnings []source.Problem
	if err == nil {
		warnings, err = warningsOf(loaded)
	}
	if !asJSON {
		return err == nil, printCheck(out, file, warnings, err)
	}
	result := checkResult{File: file, OK: err == nil}
	if err != nil {
		result.Problems = daemon.ProblemsOf(file, err)
	} else {
		result.Config = loaded
	}
	for _, w := range warnings {
		result.Warnings = append(result.Warnings, daemon.ProblemOf(w))
	}
	return result.OK, jsondoc.Write(out, result)
}

func printCheck(out io.Writer, file string, warnings []source.Problem, failed error) error {
	var lines []string
	if failed != nil {
		lines = problemLines(failed)
	}
	for _, w := range warnings {
		lines = append(lines, "warning: "+w.Detail())
	}
	if failed == nil {
		lines = append(lines, file+": ok")
	}
	_, err := fmt.Fprintln(out, strings.Join(lines, "\n"))
	return err
}

// problemLines are the lines that say what is wrong, those of the file included.
func problemLines(err error) []string {
	var problems *source.Problems
	if errors.As(err, &problems) {
		return strings.Split(strings.TrimRight(problems.Detail(), "\n"), "\n")
	}
	return []string{err.Error()}
}

// warningsOf are those of the file and of this host; an error says why the configuration
// cannot run here.
func warningsOf(c *config.Config) ([]source.Problem, error) {
	list := slices.Clone(c.Warnings)
	ofHost := func(text string) {
		list = append(list, source.Problem{Message: text})
	}
	list = append(list, missingInterfaces(c)...)
	ofEngine, err := new(engines.Choice).Check(c)
	for _, w := range ofEngine {
		ofHost(w)
	}
	return list, err
}

// namesListed bounds the interfaces that a hint lists.
const namesListed = 8

// missingInterfaces warns of the interfaces of site and core that this host does not have. The file may be another host's, so they
// are warnings.
func missingInterfaces(c *config.Config) (list []source.Problem) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil
	}
	var names []string
	for _, i := range interfaces {
		if i.Flags&net.FlagLoopback == 0 {
			names = append(names, i.Name)
		}
	}
	check := func(ref config.InterfaceRef, side string, at int) {
		if ref.Name == "" || slices.Contains(names, ref.Name) {
			return
		}
		p := c.Problem("interface "+ref.Name+" does not exist on this host", "interfaces", side, at)
		p.Hint = interfaceHint(ref.Name, names) + namespaceHint(namedNamespaces)
		list = append(list, p)
	}
	for i, s := range c.Interfaces.Site {
		check(s.Interface, "site", i)
	}
	for i, core := range c.Interfaces.Core {
		check(core.Interface, "core", i)
	}
	return list
}

// namedNamespaces is where `ip netns` has the network namespaces with names.
const namedNamespaces = "/run/netns"

// namespaceHint says where else an interface may be, if this host has network namespaces with names.
func namespaceHint(directory string) string {
	entries, err := os.ReadDir(directory)
	if err != nil || len(entries) == 0 {
		return ""
	}
	var names []string
	for _, e := range entries[:min(len(entries), namesListed)] {
		names = append(names, e.Name())
	}
	return "; if it is in another network namespace, check there: " +
		"`ip netns exec NAME loci check`, with NAME of " + strings.Join(names, ", ")
}

// interfaceHint names the interface that is most alike, or those that there are.
func interfaceHint(name string, names []string) string {
	if near := command.Nearest(name, names); near != "" {
		return "did you mean " + near + "?"
	}
	if len(names) == 0 {
		return "this host has none but the loopback interface"
	}
	return "this host has " + strings.Join(names[:min(len(names), namesListed)], ", ")
}
