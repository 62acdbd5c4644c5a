// SPDX-License-Identifier: Apache-2.0

// Package system is what all roles of a Node share: the time of this event-loop iteration, the random
// source, the queue of effects, the counters, our own RLOCs, and the rates of what is sent. It sends
// Map-Replies and forwards Map-Requests for the roles; it never decides what they say.
package system
