// SPDX-License-Identifier: Apache-2.0

// Package subflow binds the subflows of Multipath TCP (RFC 8684) to the locators of a mapping, so that those of one
// session take different paths. It reads the option of Multipath TCP in the headers that the data plane reports, knows
// which subflows belong together, and chooses their paths.
//
// A Binder binds one direction alone: packets that this router sends towards the core. What comes from the core tells
// it keys and tokens. It asks for no mapping and judges no locator. No packet waits for it.
package subflow
