// SPDX-License-Identifier: Apache-2.0

// Tests of emulated links, in real namespaces. They need root. What must not depend on the load of the machine is asserted: nothing
// comes too early, out of order or uncounted. How late frames are is logged.

package testnet

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// emulated is one emulated link between n nodes, with both families.
func emulated(t testing.TB, n int) (*EmulatedLink, []*Namespace) {
	t.Helper()
	network := ForTest(t)
	var ends []End
	var nodes []*Namespace
	for i := range n {
		ns, err := network.Namespace(fmt.Sprintf("n%d", i))
		must(t, err)
		nodes = append(nodes, ns)
		ends = append(ends, End{Namespace: ns, Name: "eth0", Addresses: prefixes(
			fmt.Sprintf("192.0.2.%d/24", i+1), fmt.Sprintf("2001:db8::%d/64", i+1))})
	}
	link, err := Emulate(1, ends...)
	must(t, err)
	t.Cleanup(func() { must(t, link.Close()) })
	return link, nodes
}

func nodeAddress(i int, v6 bool) netip.Addr {
	if v6 {
		return netip.MustParseAddr(fmt.Sprintf("2001:db8::%d", i+1))
	}
	return netip.MustParseAddr(fmt.Sprintf("192.0.2.%d", i+1))
}

// logLateness logs how accurate a direction was.
func logLateness(t testing.TB, link *EmulatedLink, from, to *Namespace) {
	t.Helper()
	counts, err := link.Counts(from, to)
	must(t, err)
	late := counts.Lateness
	if len(late) == 0 {
		t.Fatalf("%s to %s: nothing was delivered", from.Role(), to.Role())
	}
	t.Logf("%s to %s: %d frames, late by p50 %v, p99 %v, at most %v", from.Role(), to.Role(), counts.Delivered,
		late[len(late)/2], late[len(late)*99/100], late[len(late)-1])
}

// settledCounts waits until no frame is under way: each that was sent is then counted once more.
func settledCounts(t testing.TB, link *EmulatedLink, from, to *Namespace) EmulatedCounts {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		counts, err := link.Counts(from, to)
		must(t, err)
		if counts.Sent == counts.Delivered+counts.Lost+counts.QueueDrops {
			return counts
		}
		if time.Now().After(deadline) {
			t.Fatalf("counts do not add up: %+v", counts)
		}
	}
}

// meet pings a node, so that the neighbour is known: the kernel keeps few packets for one that is not.
func meet(t testing.TB, from *Namespace, to int) {
	t.Helper()
	for _, v6 := range []bool{false, true} {
		_, err := Ping{Namespace: from, Destination: nodeAddress(to, v6)}.Run(context.Background())
		must(t, err)
	}
}

func TestEmulatedDelayIsPerPair(t *testing.T) {
	link, nodes := emulated(t, 3)
	must(t, link.Impair(nodes[0], nodes[1], Impairment{Delay: 20 * time.Millisecond}))
	must(t, link.Impair(nodes[1], nodes[0], Impairment{Delay: 10 * time.Millisecond}))
	must(t, link.ImpairBoth(nodes[0], nodes[2], Impairment{Delay: 5 * time.Millisecond, Jitter: 2 * time.Millisecond}))
	for _, v6 := range []bool{false, true} {
		for to, least := range map[int]time.Duration{1: 30 * time.Millisecond, 2: 6 * time.Millisecond} {
			result, err := Ping{Namespace: nodes[0], Destination: nodeAddress(to, v6), Count: 20}.Run(context.Background())
			must(t, err)
			if result.Received != 20 {
				t.Errorf("to %v: %d of 20 answers", nodeAddress(to, v6), result.Received)
			}
			for i, d := range result.RoundTrips {
				if d < least {
					t.Errorf("to %v: answer %d after %v, want %v at least", nodeAddress(to, v6), i, d, least)
				}
			}
		}
	}
	logLateness(t, link, nodes[0], nodes[1])
	logLateness(t, link, nodes[2], nodes[0])
}

func TestEmulatedRateAndOrder(t *testing.T) {
	link, nodes := emulated(t, 2)
	const rate, count, octets = 8_000_000, 200, 1000
	meet(t, nodes[0], 1)
	must(t, link.Impair(nodes[0], nodes[1], Impairment{
		Rate: rate, Queue: time.Minute, Delay: 3 * time.Millisecond, Jitter: 3 * time.Millisecond,
	}))
	for _, v6 := range []bool{false, true} {
		begin := time.Now()
		result, err := UDP{Sender: nodes[0], Receiver: nodes[1], Destination: netip.AddrPortFrom(nodeAddress(1, v6), 0), Count: count, Octets: octets}.
			Run(context.Background())
		took := time.Since(begin)
		must(t, err)
		if result.Received != count || result.Reordered+result.Duplicates != 0 {
			t.Errorf("%+v: want all %d in order", result, count)
		}
		least := time.Duration(count*octets*8) * time.Second / rate
		if took < least {
			t.Errorf("%d octets took %v: faster than %d bit/s", count*octets, took, rate)
		}
		t.Logf("%v for what takes %v at the rate, without headers", took, least)
	}
}

func TestEmulatedLossAndQueueAreCounted(t *testing.T) {
	link, nodes := emulated(t, 2)
	for name, c := range map[string]struct {
		rules Impairment
		lost  func(EmulatedCounts) uint64
	}{
		"loss":  {Impairment{Loss: 0.5}, func(c EmulatedCounts) uint64 { return c.Lost }},
		"queue": {Impairment{Rate: 100_000, Queue: 100 * time.Millisecond}, func(c EmulatedCounts) uint64 { return c.QueueDrops }},
	} {
		t.Run(name, func(t *testing.T) {
			must(t, link.Impair(nodes[0], nodes[1], Impairment{}))
			meet(t, nodes[0], 1)
			before, err := link.Counts(nodes[0], nodes[1])
			must(t, err)
			must(t, link.Impair(nodes[0], nodes[1], c.rules))
			result, err := UDP{Sender: nodes[0], Receiver: nodes[1], Destination: netip.AddrPortFrom(nodeAddress(1, false), 0), Count: 200, Octets: 500, Timeout: time.Second}.
				Run(context.Background())
			must(t, err)
			after := settledCounts(t, link, nodes[0], nodes[1])
			if lost := c.lost(after) - c.lost(before); lost < 50 || lost > 198 || uint64(result.Lost) > lost {
				t.Errorf("%d datagrams were lost, %d frames counted (%+v)", result.Lost, lost, after)
			}
		})
	}
}

func TestEqualSeedsLoseEqually(t *testing.T) {
	lost := func(seed uint64) (pattern []bool) {
		p := newEmulatedPath(nil, seededRandom(seed, 0, 1))
		p.impair(Impairment{Loss: 0.3})
		for range 100 {
			before := p.count().Lost
			p.send(make([]byte, 60), time.Now())
			pattern = append(pattern, p.count().Lost > before)
		}
		return pattern
	}
	a, b, c := fmt.Sprint(lost(1)), fmt.Sprint(lost(1)), fmt.Sprint(lost(2))
	if a != b || a == c {
		t.Errorf("seed 1: %s\nagain:  %s\nseed 2: %s", a, b, c)
	}
}

func TestEmulatedLinkRefusesNonsense(t *testing.T) {
	link, nodes := emulated(t, 2)
	for want, i := range map[string]Impairment{
		"must not be negative": {Delay: -1},
		"more than delay":      {Delay: 1, Jitter: 2},
		"from 0 to 1":          {Loss: 1.1},
	} {
		if err := link.Impair(nodes[0], nodes[1], i); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", i, err, want)
		}
	}
	if err := link.Impair(nodes[0], nodes[0], Impairment{}); err == nil || !strings.Contains(err.Error(), "no emulated link") {
		t.Errorf("to itself: %v", err)
	}
	if _, err := Emulate(1, End{Namespace: nodes[0], Name: "x"}); err == nil {
		t.Error("a link with one end was made")
	}
	if _, err := Emulate(1, End{Namespace: nodes[0], Name: "x"}, End{Namespace: nodes[0], Name: "y"}); err == nil {
		t.Error("two ends in one namespace were taken")
	}
	if _, err := nodes[0].link.LinkByName("x"); err == nil {
		t.Error("a link that was refused left its interface")
	}
}

// TestEmulatedLinkDown: an interface that is down loses frames, and carries them again when it is up.
func TestEmulatedLinkDown(t *testing.T) {
	_, nodes := emulated(t, 2)
	answers := func() int {
		result, err := Ping{Namespace: nodes[0], Destination: nodeAddress(1, false), Timeout: 100 * time.Millisecond}.Run(context.Background())
		must(t, err)
		return result.Received
	}
	must(t, nodes[1].SetUp("eth0", false))
	if answers() != 0 {
		t.Error("an interface that is down answers")
	}
	must(t, nodes[1].SetUp("eth0", true))
	for deadline := time.Now().Add(10 * time.Second); answers() == 0; {
		if time.Now().After(deadline) {
			t.Fatal("no answer although the interface is up again")
		}
	}
}
