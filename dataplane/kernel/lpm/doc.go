// SPDX-License-Identifier: Apache-2.0

// Package lpm finds the longest prefix of an address: it is the forwarding table of both
// tables, all families and all Instance-IDs, in the arrays that bpf/abi.h describes
// ("Forwarding table") and BPF programs walk.
//
// A table is a trie whose nodes have any stride, with path-compressed nodes where only one
// way goes on. A root of many IPv4 prefixes has a first level as DIR-24-8 has it: a slot
// for each value of the first 24 bits, of which each is an answer or leads into the trie. A root of
// many IPv6 prefixes has a first level of 20 bits and second levels of 16 bits below it,
// whose entries repeat what the trie says; what an entry cannot say it leaves to the trie.
//
// Everything is edited in place, so that every single store leaves a table whose every
// lookup gives either the old answer or the new one. A table grows, shrinks and takes
// another shape by being built anew beside the one in force. The package knows neither
// maps nor mappings: memory comes from Memory, prefixes from Entries, an answer is an index.
package lpm
