// SPDX-License-Identifier: Apache-2.0

package main

// loci lab run faults: a network that is broken in a seeded order.

import (
	"cmp"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"loci/config"
	"loci/internal/command"
	"loci/internal/jsondoc"
	"loci/lab"
	"loci/lab/experiment"
	"loci/lab/faults"
)

// faultsName is the experiment that package faults is.
const faultsName = "faults"

// faultOptions are the flags of `loci lab run` that are for faults alone.
type faultOptions struct {
	seed     uint64
	duration time.Duration
}

func (o *faultOptions) addFlags(cmd *cobra.Command) {
	cmd.Flags().Uint64Var(&o.seed, "seed", 1, "faults: which faults happen, and when")
	cmd.Flags().DurationVar(&o.duration, "duration", faults.DefaultDuration, "faults: for how long they happen")
}

// run breaks a network, and prints what came of it.
func (o *faultOptions) run(cmd *cobra.Command, options experiment.Options) error {
	if o.duration <= 0 {
		return command.Usagef("--duration %v: want more than 0s", o.duration)
	}
	engine := config.EngineChoice(cmp.Or(options.Engine, string(config.EngineKernel)))
	progress := io.Writer(cmd.OutOrStdout())
	if options.JSON {
		progress = cmd.ErrOrStderr()
	}
	report, err := faults.Run(cmd.Context(), faults.Options{Seed: o.seed, Duration: o.duration, Engine: engine, Executable: options.Executable, Progress: progress})
	if err != nil {
		return &command.Exit{Status: lab.ExitStatus(err), Err: err}
	}
	report.Write(progress)
	if options.JSON {
		err = jsondoc.Write(cmd.OutOrStdout(), report.Document())
	}
	if err := errors.Join(err, report.Failed()); err != nil {
		return &command.Exit{Status: lab.ExitFailed, Err: err}
	}
	return nil
}
