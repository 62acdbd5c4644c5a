// SPDX-License-Identifier: Apache-2.0

//go:build !(mips || mips64 || ppc64 || s390x || nokernel)

package main

// The commands that look into the kernel's data plane.

import "github.com/spf13/cobra"

// without names what this build leaves out.
var without []string

func kernelCommands() []*cobra.Command {
	return []*cobra.Command{newTraceCommand(), newCaptureCommand()}
}
