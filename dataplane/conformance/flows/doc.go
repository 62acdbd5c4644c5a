// SPDX-License-Identifier: Apache-2.0

// Package flows is the part of the conformance suite about flows that are bound to a path, and about the events by
// which the control plane learns of subflows of Multipath TCP (RFC 8684). Every engine that binds flows passes it, in
// the network of package conformance. It is imported by tests alone and knows no engine.
package flows
