// SPDX-License-Identifier: Apache-2.0

// Package maprequest sends the ITR's Map-Requests (RFC 9301 s.5.2, s.5.3, s.5.8): one for each EID-Prefix at a
// time, repeated with growing pauses, given up, asked again when a Map-Resolver is back, and never beyond the
// rates. It has the Map-Requests under way and the Map-Resolvers that they go to. What an answer means for the
// map-cache is for package itr.
package maprequest
