// SPDX-License-Identifier: Apache-2.0

// Package mappings draws prefixes for full tables and fills a router's tables with them: lengths as in the Internet's tables, or
// host routes and small sites. Addresses are random, but the same in every run. It measures nothing.
package mappings
