// SPDX-License-Identifier: Apache-2.0

// Package counter lists what a Node counts: messages, and the reasons for which messages are refused.
// A refusal reason is a counter, so nothing is dropped without one. docs/counters.md repeats the
// descriptions; a test compares them.
package counter
