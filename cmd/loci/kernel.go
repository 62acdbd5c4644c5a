// SPDX-License-Identifier: Apache-2.0

//go:build !(mips || mips64 || ppc64 || s390x || nokernel)

package main

// The commands that look into the kernel's data plane.

import (
	"errors"

	"github.com/spf13/cobra"

	"loci/internal/command"
	"loci/packettrace"
)

// withoutKernel names what this build leaves out.
var withoutKernel []string

func kernelCommands() []*cobra.Command {
	return []*cobra.Command{newTraceCommand(), newCaptureCommand()}
}

// kernelStatusOf is statusOf for their errors.
func kernelStatusOf(err error) int {
	switch {
	case errors.Is(err, packettrace.ErrUsage):
		return command.StatusUsage
	case errors.Is(err, packettrace.ErrNothingInForce):
		return command.StatusAbsent
	}
	return 0
}
