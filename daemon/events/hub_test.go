// SPDX-License-Identifier: Apache-2.0

package events

import (
	"net/netip"
	"regexp"
	"slices"
	"testing"
	"time"

	"loci/control"
	"loci/daemon/api"
	"loci/dataplane"
	"loci/lisp"
)

func TestSlowSubscriberLosesOnlyItsOwn(t *testing.T) {
	h := NewHub()
	slow, quick := h.Subscribe(api.EventQuery{}), h.Subscribe(api.EventQuery{})
	const published = subscriberQueueLength + 10
	for range published {
		h.Publish(api.Event{Kind: "tick"})
		if e := <-quick.Events; e.Kind != "tick" {
			t.Fatalf("the reader that keeps up got %q", e.Kind)
		}
	}
	for range subscriberQueueLength {
		if e := <-slow.Events; e.Kind != "tick" {
			t.Fatalf("got %q", e.Kind)
		}
	}
	h.Publish(api.Event{Kind: "last"})
	if e := <-slow.Events; e.Kind != "events-lost" || e.Fields["count"] != "10" {
		t.Errorf("got %+v, want to be told of 10 lost events", e)
	}
	if e := <-slow.Events; e.Kind != "last" {
		t.Errorf("got %q after the loss", e.Kind)
	}
}

func TestSubscribersAreLimited(t *testing.T) {
	h := NewHub()
	var last *Subscriber
	for range MaxSubscribers {
		last = h.Subscribe(api.EventQuery{})
	}
	if last == nil || h.Subscribe(api.EventQuery{}) != nil {
		t.Fatal("the limit is not where it is said to be")
	}
	h.Unsubscribe(last)
	if h.Subscribe(api.EventQuery{}) == nil {
		t.Error("the place of one that left stays taken")
	}
}

// TestSubscribersGetWhatTheyWant: what one does not want takes no room of its queue, and counts as no loss.
func TestSubscribersGetWhatTheyWant(t *testing.T) {
	h := NewHub()
	s := h.Subscribe(api.EventQuery{Kinds: []string{"miss"}})
	for range subscriberQueueLength + 1 {
		h.Publish(api.Event{Kind: "gleaned"})
	}
	h.Publish(api.Event{Kind: "miss"})
	if e := <-s.Events; e.Kind != "miss" || len(s.Events) != 0 {
		t.Errorf("got %q, and %d more", e.Kind, len(s.Events))
	}
}

// TestEarlierEventsAreKept: the last ones, in their order, as far as they are wanted; without a time none.
func TestEarlierEventsAreKept(t *testing.T) {
	h, start := NewHub(), time.Now()
	at := func(i int) time.Time { return start.Add(time.Duration(i) * time.Second) }
	const published = historyLength + 100
	for i := range published {
		h.Publish(api.Event{At: at(i), Kind: []string{"miss", "gleaned"}[i%2]})
	}
	if s := h.Subscribe(api.EventQuery{}); len(s.History) != 0 {
		t.Errorf("%d events that were not asked for", len(s.History))
	}
	all := h.Subscribe(api.EventQuery{Since: start}).History
	if len(all) != historyLength || !all[0].At.Equal(at(100)) || !all[len(all)-1].At.Equal(at(published-1)) {
		t.Errorf("%d events", len(all))
	}
	if !slices.IsSortedFunc(all, func(a, b api.Event) int { return a.At.Compare(b.At) }) {
		t.Error("not in their order")
	}
	late := h.Subscribe(api.EventQuery{Since: at(published - 10), Kinds: []string{"gleaned"}}).History
	if len(late) != 5 || late[0].Kind != "gleaned" || late[0].At.Before(at(published-10)) {
		t.Errorf("the last are %+v", late)
	}
}

var underscores = regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)

// TestEventsOfThePlane: each has its kind, and what it is about; the names of fields are keys of JSON.
func TestEventsOfThePlane(t *testing.T) {
	eid, other := lisp.EIDFromAddr(netip.MustParseAddr("10.1.0.1")), lisp.EIDFromAddr(netip.MustParseAddr("2001:db8::1"))
	rloc, prefix := lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.1")), lisp.MustParsePrefix("[7]10.2.0.0/16")
	versions := dataplane.PacketVersions{Instance: 7, Source: eid, Destination: other, From: rloc, SourceVersion: 3}
	for kind, c := range map[string]struct {
		event           dataplane.Event
		about, peer, at string
	}{
		"miss":                 {dataplane.Miss{Instance: 7, Source: eid, Destination: other, Interface: "lan0"}, "[7]2001:db8::1/128", "", ""},
		"locator-status-bits":  {dataplane.StatusBitsChanged{Prefix: prefix, From: rloc, Bits: 2, Count: 2}, "[7]10.2.0.0/16", "192.0.2.1", ""},
		"local-version-stale":  {dataplane.LocalVersionStale{PacketVersions: versions}, "[7]10.1.0.1/32", "192.0.2.1", ""},
		"remote-version-stale": {dataplane.RemoteVersionStale{PacketVersions: versions}, "[7]2001:db8::1/128", "192.0.2.1", ""},
		"gleaned":              {dataplane.Gleaned{Instance: 7, Source: eid, Destination: other, From: rloc}, "[7]10.1.0.1/32", "192.0.2.1", ""},
		"nonce-mismatch":       {dataplane.NonceMismatch{RLOC: rloc, Sent: 1}, "", "", "192.0.2.1"},
		"locator-unreachable":  {dataplane.LocatorUnreachable{RLOC: rloc, Type: 3, Code: 1}, "", "", "192.0.2.1"},
		"path-mtu":             {dataplane.MTUChanged{RLOC: rloc, MTU: 1400}, "", "", "192.0.2.1"},
	} {
		e, ok := FromPlane(time.Now(), c.event)
		about := ""
		if e.EIDPrefix != nil {
			about = e.EIDPrefix.String()
		}
		if !ok || e.Kind != kind || about != c.about || e.Peer != c.peer || e.RLOC != c.at {
			t.Errorf("%s: %+v about %q", kind, e, about)
		}
		for name := range e.Fields {
			if !underscores.MatchString(name) {
				t.Errorf("%s: the key %q", kind, name)
			}
		}
	}
}

func TestEventsOfTheNode(t *testing.T) {
	n := control.Notice{Kind: control.NoticeRLOCProbeAnswered, Prefix: lisp.MustParsePrefix("10.2.0.0/16"), Remote: netip.MustParseAddrPort("192.0.2.1:4342"), Took: 1500 * time.Microsecond}
	if e := FromNotice(n); e.EIDPrefix.String() != "10.2.0.0/16" || e.Peer != "192.0.2.1:4342" || e.Fields["round_trip_seconds"] != "0.0015" {
		t.Errorf("%+v", e)
	}
	if e := FromNotice(control.Notice{Kind: control.NoticeLocatorDown, RLOC: "192.0.2.1", Reason: "icmp", Site: "s", Detail: "d"}); e.EIDPrefix != nil || e.Peer != "" || e.RLOC+e.Reason+e.Site+e.Detail != "192.0.2.1icmpsd" {
		t.Errorf("%+v", e)
	}
}
