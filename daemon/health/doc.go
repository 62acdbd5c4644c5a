// SPDX-License-Identifier: Apache-2.0

// Package health judges a daemon by what it tells of itself: one verdict, and the problems behind it, with what they
// cost and what to do (docs/status.md). Judge is a pure function of Facts, and changes nothing.
package health
