// SPDX-License-Identifier: Apache-2.0

// Package transfer gives a sibling that is handed the site's packets the mappings in use, over the site's link, so that no packet
// waits for a Map-Resolver that the sibling may not reach. The Giver offers a few EID-Prefixes at a time by a
// Solicit-Map-Request without a source EID. The Taker asks for them by an SMR-invoked Map-Request with a nonce of its own, and takes
// what answers that from the sibling's address, and nothing else. TTLs are what is left of them. A mapping goes with those within its
// EID-Prefix, in one message.
package transfer
