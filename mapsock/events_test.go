// SPDX-License-Identifier: Apache-2.0

package mapsock

import (
	"testing"

	"loci/dataplane"
	"loci/lisp"
)

// What is no event, or lacks what its type needs, is none.
func TestMessagesThatAreNoEvents(t *testing.T) {
	for _, m := range []*Message{
		{Type: TypeDelete}, {Type: TypeDelete, Flags: FlagExpired | FlagDone}, {Type: TypeDelete, Flags: FlagExpired | FlagDone | FlagDatabase, HasEID: true},
		{Type: TypeMTU}, {Type: TypeMTU, Locators: make([]Locator, 2)}, {Type: TypeAdd, Locators: make([]Locator, 1)},
		{Type: TypeStatusBits, Locators: make([]Locator, 1)}, {Type: TypeLocalStale, Locators: make([]Locator, 1)}, {Type: TypeMissEID},
		{Type: TypeControlPacket}, {Type: TypeControlPacket, Packet: []byte{1}, has: 1 << AttributePacket}, {Type: TypeControlPacket, has: 1 << AttributeOuter},
	} {
		if event, ok := m.Event(); ok {
			t.Errorf("%s is %T", m, event)
		}
	}
	if (&Message{}).SetEvent(nil) {
		t.Error("no event has a message")
	}
	huge := dataplane.LocatorUnreachable{RLOC: lisp.RLOC{}}
	var m Message
	m.SetEvent(huge)
	if _, err := m.Append(nil); err == nil {
		t.Error("a locator without RLOC was written")
	}
}
