// SPDX-License-Identifier: Apache-2.0

package virtual

// The trace: a hash of every event, and, when asked for, the last of them in words.

import (
	"encoding/binary"
	"fmt"
	"time"
)

// Trace is the hash of all events, and the last of them in words.
type Trace struct {
	Hash  uint64
	Keep  int // lines; 0 keeps none
	ring  []string
	start int
}

// Mix adds a number to the hash.
func (t *Trace) Mix(n uint64) {
	h := t.Hash ^ n
	h *= 0x9e3779b97f4a7c15
	t.Hash = h ^ h>>29
}

// Note is an event: when, to whom, and its octets. words are only asked for when
// somebody will read them.
func (t *Trace) Note(at time.Duration, who int, octets []byte, words func() string) {
	t.Mix(uint64(at))
	t.Mix(uint64(who)<<32 | uint64(len(octets)))
	for len(octets) >= 8 {
		t.Mix(binary.LittleEndian.Uint64(octets))
		octets = octets[8:]
	}
	for _, b := range octets {
		t.Mix(uint64(b))
	}
	t.Say(at, words)
}

// Say keeps a line without counting it in.
func (t *Trace) Say(at time.Duration, words func() string) {
	if t.Keep == 0 {
		return
	}
	line := fmt.Sprintf("%12.6f %s", at.Seconds(), words())
	if len(t.ring) < t.Keep {
		t.ring = append(t.ring, line)
		return
	}
	t.ring[t.start] = line
	t.start = (t.start + 1) % t.Keep
}

// Lines are those kept, oldest first.
func (t *Trace) Lines() []string {
	return append(t.ring[t.start:len(t.ring):len(t.ring)], t.ring[:t.start]...)
}
