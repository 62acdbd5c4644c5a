// SPDX-License-Identifier: Apache-2.0

package demo

// The demo of a move: every leg in its order, no ping lost; and what is said of a leg that
// no capture saw.

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"loci/internal/testnet"
	"loci/lisp"
)

// TestMoveDemo: RFC 9301 s.6.1: register first, then SMR; the peer asks the mapping system.
func TestMoveDemo(t *testing.T) {
	executable := buildCommand(t)
	output, pid := runCommand(t, executable, "demo", "--move", "--json")
	var report Report
	must(t, json.Unmarshal(output, &report))
	if !report.Worked || report.Move == nil || len(report.Move.Legs) != 7 || report.Move.PingsReceived != report.Move.PingsSent {
		t.Fatalf("report: %s", output)
	}
	for i, leg := range report.Move.Legs {
		if i > 0 && (leg.Took < 0 || leg.After < report.Move.Legs[i-1].After) {
			t.Errorf("leg %d: %+v after %+v", i, leg, report.Move.Legs[i-1])
		}
	}
	const watchdog = 2000 // the bound is printed, not tested: machines are busy
	if m := report.Move; m.Total <= 0 || m.Total.Milliseconds() > watchdog || m.Bound.Milliseconds() < 20 {
		t.Errorf("total %v ms, bound %v ms", m.Total.Milliseconds(), m.Bound.Milliseconds())
	}
	t.Logf("the change reached the peer in %.2f ms; the bound is %.2f ms", report.Move.Total.Milliseconds(), report.Move.Bound.Milliseconds())
	if left := leftovers(t, pid); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestMoveWatchNamesTheMissingLeg(t *testing.T) {
	w := newMoveWatch(lisp.MustParsePrefix("10.2.4.0/24"))
	must(t, w.see(testnet.Captured{Time: time.Now(), Link: siteB.name, Data: []byte("no packet")}))
	_, err := w.report(nil)
	if err == nil || !strings.Contains(err.Error(), "Map-Register with the new RLOC from xtr-b to ms") {
		t.Errorf("error %v", err)
	}
}
