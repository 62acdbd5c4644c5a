// SPDX-License-Identifier: Apache-2.0

// Package resolvers is the table of the ITR's Map-Resolvers (RFC 9301 s.8.1): how soon each answers, whether
// it does, and which one is asked next. It sends nothing.
package resolvers
