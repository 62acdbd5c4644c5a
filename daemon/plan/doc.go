// SPDX-License-Identifier: Apache-2.0

// Package plan makes of a configuration and a look at the host what the parts of a daemon are told.
//
// Make returns a Plan: the Node's configuration, the data plane's settings, the own RLOCs, and what the host does
// not have yet. Every problem is reported at its position in the file. Making a Plan changes nothing, so that the
// daemon makes one whenever the file or the host changes, and compares it with the one it works by.
package plan
