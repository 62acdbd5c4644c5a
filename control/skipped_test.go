// SPDX-License-Identifier: Apache-2.0

package control

import (
	"testing"

	"loci/wire"
)

// What an ITR cannot use of a Map-Reply is skipped, told by Explain with the reason.
func TestSkippedLocatorsAreExplained(t *testing.T) {
	_, x := loneITR(t, Limits{})
	answer := func(locators ...wire.Address) {
		record := wire.RecordOf(positive("10.2.0.0/16", 10))
		for _, a := range locators {
			record.Locators = append(record.Locators, wire.LocatorRecord{Priority: 1, Weight: 1, Reachable: true, Address: a})
		}
		x.miss("10.1.0.1", "10.2.0.1")
		requests := sentMessages[*wire.MapRequest](x)
		if len(requests) == 0 {
			t.Fatal("no Map-Request")
		}
		b, err := (&wire.MapReply{Nonce: requests[0].Nonce, Records: []wire.Record{record}}).AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		x.sent, x.sentAt = nil, nil
		x.inject("192.0.2.1:4342", "192.0.2.9:4342", b)
	}
	answer(wire.NoAddress{}, wire.IPv4{127, 0, 0, 1})
	e := x.Explain(0, eid("10.2.0.1"))
	if len(e.Locators) != 1 || e.Locators[0].Locator.RLOC != rloc("192.0.2.9") {
		t.Errorf("locators %+v, want the one that can be used", e.Locators)
	}
	if len(e.Skipped) != 2 || e.Skipped[1].Address != "127.0.0.1" || e.Skipped[0].Reason == "" || e.Skipped[1].Reason == "" {
		t.Errorf("skipped %+v, want both others", e.Skipped)
	}
}
