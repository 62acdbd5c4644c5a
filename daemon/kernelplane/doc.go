// SPDX-License-Identifier: Apache-2.0

// Package kernelplane is the data plane in this host's kernel as the daemon and the tools need it: opening it,
// ending what a stopped daemon left, and finding out what on this host is in its way.
package kernelplane
