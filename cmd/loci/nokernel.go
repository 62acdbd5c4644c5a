// SPDX-License-Identifier: Apache-2.0

//go:build mips || mips64 || ppc64 || s390x || nokernel

package main

// A build without the kernel's data plane has no commands that look into it.

import "github.com/spf13/cobra"

// withoutKernel names what this build leaves out.
var withoutKernel = []string{"the data plane in the kernel, and trace and capture, which look into it"}

func kernelCommands() []*cobra.Command { return nil }

func kernelStatusOf(error) int { return 0 }
