// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
	"testing"
)

func TestNeedsRestart(t *testing.T) {
	const base = planHead + "etr:\n  local-eids: [{eid: 10.1.0.0/24, instance-id: 7}]\n"
	current, err := planOf(t, base)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ added, want string }{
		{"control: {socket: /run/other.sock}\n", "control.socket"},
		{"control: {port: 14342}\n", "control.port"},
		{"control: {addresses: [192.0.2.1]}\n", "control.addresses"},
		{"datapath: {interface: lisp9}\n", "datapath"},
		{"datapath: {mapping-socket: {path: /run/map.sock}}\n", "datapath"},
		{"logging: {format: json}\n", "logging.format"},
		{"logging: {level: debug}\n", ""},
		{"limits: {pending-map-requests: 17}\n", ""},
	} {
		fresh, err := planOf(t, base+c.added)
		if err != nil {
			t.Fatal(err)
		}
		if err := NeedsRestart(current, fresh, current.MappingLimit()); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%sgot %v, want %q", c.added, err, c.want)
		}
	}
	again, _ := planOf(t, base+"datapath: {mapping-socket: {path: /run/map.sock}}\n")
	same, _ := planOf(t, base+"datapath: {mapping-socket: {path: /run/map.sock}}\n")
	if err := NeedsRestart(again, same, again.MappingLimit()); err != nil {
		t.Errorf("the same file: %v", err)
	}
	if kept, err := planOf(t, base+"  nonce-file: /var/lib/loci/nonce\n"); err != nil || NeedsRestart(current, kept, current.MappingLimit()) == nil {
		t.Errorf("etr.nonce-file may be changed at work: %v", err)
	}
	larger := current
	larger.Control.Limits.MapCacheEntries *= 2
	if err := NeedsRestart(current, larger, current.MappingLimit()); err == nil {
		t.Error("a larger map-cache needs no new tables")
	}
}

// TestETRComesAndGoes: what counts is what the data plane was made for, not what was configured last.
func TestETRComesAndGoes(t *testing.T) {
	without, err := planOf(t, planHead)
	if err != nil {
		t.Fatal(err)
	}
	with := func(count int) Plan {
		text := planHead + "etr:\n  local-eids:\n"
		for i := range count {
			text += fmt.Sprintf("    - {eid: 10.%d.%d.0/24, instance-id: 7}\n", 64+i/256, i%256)
		}
		p, err := planOf(t, text)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	few, many := with(1), with(databaseStep)
	if err := NeedsRestart(without, few, without.MappingLimit()); err != nil {
		t.Errorf("an ETR that a reload adds: %v", err)
	}
	if err := NeedsRestart(without, many, many.MappingLimit()); err != nil {
		t.Errorf("an ETR that comes back: %v", err)
	}
	if err := NeedsRestart(few, many, few.MappingLimit()); err == nil || !strings.Contains(err.Error(), "etr.local-eids") {
		t.Errorf("more EID-Prefixes than there is room for: %v", err)
	}
}
