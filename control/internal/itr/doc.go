// SPDX-License-Identifier: Apache-2.0

// Package itr is the ITR: it has the destinations that the data plane misses resolved, and keeps the
// map-cache (RFC 9300 s.5 to s.9, RFC 9301 s.5.3, s.5.5, s.6.1, s.8.1). It expires, refreshes and evicts
// entries, and asks again after an SMR. It never answers a Map-Request, and never accepts a Map-Reply that
// it did not ask for.
//
// The ITR has three parts, each with its own state: mapCache changes the map-cache here and in the data
// plane; sweeps and statics are the passes that take several event-loop iterations, over the whole map-cache
// and over the configured mappings.
//
// Its Map-Requests are sent by package maprequest. Locators and their RLOC-probes are in package reach, the
// table of mappings in package mapcache.
package itr
