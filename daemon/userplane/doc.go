// SPDX-License-Identifier: Apache-2.0

// Package userplane is the data plane in user space as the daemon needs it: opening it, and keeping its map-cache while no
// daemon runs.
package userplane
