// SPDX-License-Identifier: Apache-2.0

// Package answers makes the documents that the control socket answers with.
//
// Each is read from the Node, by a short question to the event loop, from the data plane, and from the plan that the
// daemon works by. Large tables are read a page at a time, so that messages do not wait for a list. Nothing here changes anything.
package answers
