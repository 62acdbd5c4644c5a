// SPDX-License-Identifier: Apache-2.0

// Package abi is what the programs of bpf/ and the Go code of the kernel data plane
// share: the compiled objects, the layout of the maps that bpf/abi.h defines, and its
// numbers. bpf2go generates both from C; this package gives them the names that the rest
// of the engine uses. It has no logic.
package abi
