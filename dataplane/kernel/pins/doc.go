// SPDX-License-Identifier: Apache-2.0

// Package pins finds the place for pins in a BPF file system, and lets one process at a time
// use an instance. It never looks into a map.
package pins
