// SPDX-License-Identifier: Apache-2.0

// Package reclaim hands out indexes and blocks of BPF arrays, and takes them back. What is
// given back rests before it is handed out again, because a program that runs on another
// processor may still hold it (bpf/abi.h, "Forwarding table"): for RestTime, or until
// WaitForPrograms returned, whichever comes first.
//
// Indexes hands out single indexes, Arena blocks of 1, 2, 4 … cells, Queue keeps what
// rests in order. Clock is a clock for them that goes ahead when programs were waited for
// in the background. The package never touches what it hands out.
package reclaim
