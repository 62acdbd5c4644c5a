// SPDX-License-Identifier: Apache-2.0

// Package netspace reaches the network namespace that an engine was opened in, from
// whichever thread.
package netspace
