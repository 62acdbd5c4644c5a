// SPDX-License-Identifier: Apache-2.0

// Package database holds the ETR's Database: the EID-Prefixes of this site with their locators, as
// configured (RFC 9301 s.5.5). A Database never changes; another configuration makes another one.
package database
