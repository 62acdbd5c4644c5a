// SPDX-License-Identifier: Apache-2.0

package main

// loci lab run control-cut: control messages are dropped, data packets pass.

import (
	"cmp"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"loci/config"
	"loci/internal/command"
	"loci/internal/jsondoc"
	"loci/lab"
	"loci/lab/experiment"
	"loci/lab/faults"
)

// controlCutName is the experiment that faults.RunCut is.
const controlCutName = "control-cut"

// controlCutVariants are the names of its variants.
func controlCutVariants() (names []string) {
	for _, c := range faults.Cuts() {
		names = append(names, c.Name)
	}
	return names
}

// runControlCut runs its variants, one after the other, and prints what came of them.
func runControlCut(cmd *cobra.Command, options experiment.Options) error {
	engine := config.EngineChoice(cmp.Or(options.Engine, string(config.EngineKernel)))
	cuts, err := faults.FindCuts(options.Variants, engine)
	if err != nil {
		return command.Usagef("%v", err)
	}
	progress := io.Writer(cmd.OutOrStdout())
	if options.JSON {
		progress = cmd.ErrOrStderr()
	}
	var reports []*faults.CutReport
	var failed error
	for _, c := range cuts {
		report, err := faults.RunCut(cmd.Context(), faults.Options{Engine: engine, Executable: options.Executable, Progress: progress}, c)
		if err != nil {
			return &command.Exit{Status: lab.ExitStatus(err), Err: err}
		}
		report.Write(progress)
		reports, failed = append(reports, report), errors.Join(failed, report.Failed())
	}
	if options.JSON {
		failed = errors.Join(jsondoc.Write(cmd.OutOrStdout(), faults.DocumentOfCuts(string(engine), reports)), failed)
	}
	if failed != nil {
		return &command.Exit{Status: lab.ExitFailed, Err: failed}
	}
	return nil
}
