// SPDX-License-Identifier: Apache-2.0

// Package forwarding has the benches of traffic between two sites: `loci bench forwarding` (packets per second), tcp (goodput),
// latency (delay in one router), and failover (how long traffic stops when a provider dies). Each file is one bench; the packets
// themselves are those of package testbed.
package forwarding
