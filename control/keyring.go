// SPDX-License-Identifier: Apache-2.0

package control

// Keyring: the immutable part of the configuration that is needed to parse and
// authenticate, so that this runs outside the goroutine that owns the Node.

// Keyring is what Inspect needs of a configuration. It never changes.
type Keyring struct{}
