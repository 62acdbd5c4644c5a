// SPDX-License-Identifier: Apache-2.0

// Package effect defines what a Node wants done: packets to send, changes of the data plane's tables,
// entries of the Map-Server's journal, and notices for the operator. A Node returns effects in the
// order in which they have to happen. An effect owns its octets. This package does nothing itself.
package effect
