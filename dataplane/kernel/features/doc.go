// SPDX-License-Identifier: Apache-2.0

// Package features asks the kernel and the host what they have: what the engine needs
// (Probe), what an interface can do (Link), and which rules are in the way of forwarded
// packets (ForwardRules). It changes nothing.
package features
