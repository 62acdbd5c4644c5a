// SPDX-License-Identifier: Apache-2.0

// Package fib is `loci bench fib`: lookups in BPF and updates of the kernel engine's forwarding table, beside an LPM_TRIE and a
// hash with the same prefixes. It sends no packet: a program looks up one address after the other (bpf/bench_fib.bpf.c).
// Lookups of all arms are counted and compared.
package fib
