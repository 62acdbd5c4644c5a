// SPDX-License-Identifier: Apache-2.0

// Package tables keeps the map-cache and the Database in the records that BPF programs read:
// it finds room, writes a record whole, has package lpm link it, and edits linked records by
// stores that each leave a right answer (bpf/abi.h, "Forwarding table").
//
// Mappings share locator-sets: equal sets are stored once. Indexes are handed out so that
// mappings side by side have one locator-set, of which programs are told. Records that an
// earlier process left are the truth; Adopt makes everything else from them. The package
// knows memory alone, and never expires an entry.
package tables
