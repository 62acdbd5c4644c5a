// SPDX-License-Identifier: Apache-2.0

// Package status defines what a Node tells about itself: the values behind `loci show` and
// `loci explain`. They are copies.
package status
