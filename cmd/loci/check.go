// SPDX-License-Identifier: Apache-2.0

package main

// loci check: is a configuration right, without running it?

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"loci/config"
	"loci/config/source"
	"loci/daemon/engines"
	"loci/internal/command"
)

func newCheckCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check FILE...",
		Short: "Check configuration files without running them",
		Long: `Check configuration files, and report every problem and every warning with file,
line and column, and the line itself.
Exit status 0 when all files are right, 1 when one is not. --json prints the configuration
in effect, with defaults and masked secrets, or the problems. The command also looks
at this host's pin-directory. As root it warns of rules of this host for forwarded
packets that LISP packets would bypass.`,
		Example: `  loci check /etc/loci/loci.yaml
  loci check --json xtr.yaml`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
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
	File     string         `json:"file"`
	OK       bool           `json:"ok"`
	Problems []string       `json:"problems,omitempty"`
	Warnings []string       `json:"warnings,omitempty"`
	Config   *config.Config `json:"config,omitempty"`
}

func checkFile(out io.Writer, file string, asJSON bool) (ok bool, err error) {
	result := checkResult{File: file}
	loaded, err := config.Load(file)
	if err == nil {
		result.Warnings, err = warningsOf(loaded)
	}
	if err != nil {
		result.Problems = problemsOf(err)
	} else {
		result.OK, result.Config = true, loaded
	}
	if asJSON {
		return result.OK, json.NewEncoder(out).Encode(result)
	}
	return result.OK, printCheck(out, result)
}

func printCheck(out io.Writer, r checkResult) (err error) {
	for _, line := range append(r.Problems, r.Warnings...) {
		if _, err = fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	if r.OK {
		_, err = fmt.Fprintf(out, "%s: ok\n", r.File)
	}
	return err
}

// problemsOf are the lines that tell what is wrong, those of the file included.
func problemsOf(err error) []string {
	var problems *source.Problems
	if errors.As(err, &problems) {
		return strings.Split(strings.TrimRight(problems.Detail(), "\n"), "\n")
	}
	return []string{err.Error()}
}

// warningsOf are those of the file and of this host; an error says why the configuration
// cannot run here.
func warningsOf(c *config.Config) (lines []string, err error) {
	for _, w := range c.Warnings {
		lines = append(lines, "warning: "+w.Detail())
	}
	engine := &engines.Choice{}
	for _, rule := range engine.SkippedRules(c) {
		lines = append(lines, "warning: "+rule)
	}
	pins, err := engine.CheckPins(c)
	if pins != "" {
		lines = append(lines, "warning: "+pins)
	}
	return lines, err
}
