// SPDX-License-Identifier: Apache-2.0

// This file says how the generator and the sinks are generated (`make generate`, or `go generate` here; it needs clang-16,
// llvm-16 and libbpf-dev). It never holds code: the objects are committed, and a test proves that they match their source.

package testbed

//go:generate go tool bpf2go -cc clang-16 -strip llvm-strip-16 -target bpfel -no-global-types -type bench_settings -type bench_counts -type bench_slot -type bench_stages -type bench_hop traffic ../../../bpf/bench_traffic.bpf.c -- -O2 -g -Wall -Wextra -Werror -mcpu=v3 -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu
