// SPDX-License-Identifier: Apache-2.0

// Package store has the maps that outlive the process: it creates, pins and reopens those
// of bpf/maps.h and a few of user space alone, gives access to their memory, and loads the
// programs that use them.
//
// Its FIB is the memory of the forwarding table (lpm.Memory): inner maps come into force by one
// store of each root, and go when no program uses them any more. Beside that it writes what
// programs read in small maps: Instance-IDs, interfaces, deny and allow lists, settings. It
// interprets no entry of the tables; package tables does.
package store
