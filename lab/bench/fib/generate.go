// SPDX-License-Identifier: Apache-2.0

// This file says how the programs that look addresses up are generated (`make generate`, or `go generate` here; it needs clang-16,
// llvm-16 and libbpf-dev). It never holds code: the objects are committed, and a test proves that they match their source.

package fib

//go:generate go tool bpf2go -cc clang-16 -strip llvm-strip-16 -target bpfel -no-global-types -type bench_state fib ../../../bpf/bench_fib.bpf.c -- -O2 -g -Wall -Wextra -Werror -Wno-unused-parameter -Wno-unused-function -mcpu=v3 -I../../../bpf -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu
