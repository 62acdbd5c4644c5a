// SPDX-License-Identifier: Apache-2.0

// What is compared: the arms, the tables, and the destinations.

package fib

const (
	armFIB     = "loci fib"
	armMapping = "loci fib and mapping"
	armCounted = "loci fib, mapping and counters"
	armTrie    = "LPM_TRIE"
	armHash    = "hash"
	armArray   = "array, random reads"

	destinationsRandom = "random"
	destinationsZipf   = "zipf"
	destinationsSingle = "single"
	// updates is the case of everything that is no lookup.
	updates = "update"

	// lookupAddresses is how many addresses are looked up before they repeat, lookupsPerRun how many a run of a program looks up
	// (bpf/bench_fib.bpf.c).
	lookupAddresses = 1 << 20
	lookupsPerRun   = 64

	million = 1000000
)

// fibTable is one content of the tables.
type fibTable struct {
	name    string
	entries int
	v6      bool
}

var fibTables = []fibTable{
	{"ipv4-1", 1, false}, {"ipv4-1k", 1000, false}, {"ipv4-100k", 100000, false}, {"ipv4-1m", million, false}, {"ipv6-200k", 200000, true},
}
