// SPDX-License-Identifier: Apache-2.0

// Package tap makes the TAP interface of an instance, where packets without a mapping wait
// and which is the interface of the host's own EIDs, and reads and writes its frames. Each
// has a virtio header: the state of checksum and segmentation that a packet keeps. The
// package never looks behind the Ethernet header.
package tap
