// SPDX-License-Identifier: Apache-2.0

package sim

// The trace: a hash of every event, and, when asked for, the last of them in words.

import (
	"encoding/binary"
	"fmt"
	"time"
)

type trace struct {
	hash  uint64
	keep  int // lines; 0 keeps none
	ring  []string
	start int
}

// mix adds a number to the hash.
func (t *trace) mix(n uint64) {
	h := t.hash ^ n
	h *= 0x9e3779b97f4a7c15
	t.hash = h ^ h>>29
}

// note is an event: when, to whom, and its octets. words are only asked for when
// somebody will read them.
func (t *trace) note(at time.Duration, who int, octets []byte, words func() string) {
	t.mix(uint64(at))
	t.mix(uint64(who)<<32 | uint64(len(octets)))
	for len(octets) >= 8 {
		t.mix(binary.LittleEndian.Uint64(octets))
		octets = octets[8:]
	}
	for _, b := range octets {
		t.mix(uint64(b))
	}
	t.say(at, words)
}

// say keeps a line without counting it in.
func (t *trace) say(at time.Duration, words func() string) {
	if t.keep == 0 {
		return
	}
	line := fmt.Sprintf("%12.6f %s", at.Seconds(), words())
	if len(t.ring) < t.keep {
		t.ring = append(t.ring, line)
		return
	}
	t.ring[t.start] = line
	t.start = (t.start + 1) % t.keep
}

// lines are those kept, oldest first.
func (t *trace) lines() []string {
	return append(t.ring[t.start:len(t.ring):len(t.ring)], t.ring[:t.start]...)
}
