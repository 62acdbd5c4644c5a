// SPDX-License-Identifier: Apache-2.0

// Package user is `loci bench user`: the data plane in user space beside plain routing, beside the barest tunnel that a process can be,
// beside other programs that tunnel in user space, and beside the data plane in the kernel.
//
// Each arm is an Engine, which carries packets between Enc and Dec. Experiments of the laboratory measure the same ones.
package user
