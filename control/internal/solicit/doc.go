// SPDX-License-Identifier: Apache-2.0

// Package solicit sends Solicit-Map-Requests when a mapping of ours changed (RFC 9301 s.6.1): to the
// locators of the mappings that we recently sent packets by, and to those who asked for ours. The new
// mapping is registered first, because the answer to an SMR comes from the mapping system.
package solicit
