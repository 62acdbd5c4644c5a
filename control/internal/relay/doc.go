// SPDX-License-Identifier: Apache-2.0

// Package relay is what RTR, PITR and PETR share in the control plane (RFC 6832, RFC 8060 s.4.6): the policies that say for whom
// destinations are resolved, and the answers to RLOC-probes of a router that has no Database. It resolves nothing itself.
package relay
