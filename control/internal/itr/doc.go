// SPDX-License-Identifier: Apache-2.0

// Package itr is the ITR: it resolves the destinations that the data plane misses, and keeps the
// map-cache (RFC 9300 s.5 to s.9, RFC 9301 s.5.2, s.5.3, s.5.5, s.6.1, s.8.1). It expires, refreshes
// and evicts entries, asks again after an SMR, and chooses among several Map-Resolvers. It never
// answers a Map-Request, and never accepts a Map-Reply that it did not ask for.
//
// Locators and their RLOC-probes are in package reach, the table of mappings in package mapcache.
package itr
