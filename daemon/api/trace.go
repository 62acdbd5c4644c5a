// SPDX-License-Identifier: Apache-2.0

package api

// What `loci trace` and `loci capture` tell of a packet.

import "time"

// Trace is what becomes of a packet, and by which steps.
type Trace struct {
	At        time.Time   `json:"at"`
	Interface string      `json:"interface"`
	Packet    string      `json:"packet"` // as it came
	Program   string      `json:"program"`
	Verdict   string      `json:"verdict"` // pass, drop, wait, native, stack, encapsulate or decapsulate
	Reason    string      `json:"reason"`  // of a drop or of waiting
	Steps     []TraceStep `json:"steps"`
	Result    string      `json:"result"` // as it leaves
}

// TraceStep is one question that was asked about the packet, and its answer.
type TraceStep struct {
	Step   string `json:"step"`
	Answer string `json:"answer"`
}

// Drop is a packet that the data plane dropped.
type Drop struct {
	At        time.Time `json:"at"`
	Interface string    `json:"interface"` // where it came in, or was to leave
	Reason    string    `json:"reason"`    // docs/counters.md has them
	Octets    int       `json:"octets"`    // of the frame
	Packet    string    `json:"packet"`
}
