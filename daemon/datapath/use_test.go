// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"testing"
	"time"
)

// TestSlowFlowsAreUse: a packet a second is use, also where other routers check this one, and its lost path is found.
func TestSlowFlowsAreUse(t *testing.T) {
	for name, answersPerSecond := range map[string]uint64{"no other router checks this one": 0, "a hundred do": 20, "what it answers is not known": 0} {
		t.Run(name, func(t *testing.T) {
			p := site(1)
			p.oneWay, p.rate = true, 1
			w := newWorld(t, p)
			w.each = func() {
				w.answered += answersPerSecond
				if name == "what it answers is not known" {
					w.answered += mostAnswers
				}
			}
			w.until(p, Passes, 30*time.Second)
			w.run(10 * time.Minute)
			if s := w.state(p); s.Outcome != Passes {
				t.Fatalf("%+v", s)
			}
			p.towards = 1
			w.until(p, Lost, 30*time.Second)
		})
	}
	p := site(1)
	p.oneWay, p.rate = true, 0
	w := newWorld(t, p)
	seconds := 0
	w.each = func() {
		if seconds++; seconds%3 == 0 {
			p.packets++
		}
	}
	w.until(p, Passes, time.Minute) // a packet in three seconds, where no other router checks this one
}

// TestIdleRoutersLeaveEachOther: two that check each other, and then have nothing to send, end that.
func TestIdleRoutersLeaveEachOther(t *testing.T) {
	for _, lag := range []time.Duration{0, 5 * time.Second} { // by which the data plane's counters are behind
		a, b := site(1), site(2)
		one, other := newWorld(t, a), newWorld(t, b)
		a.lag, b.lag = lag, lag
		a.oneWay, b.oneWay = true, true
		const routers = 3 // of each site, which all check the other's
		one.reached = func() { b.packets += routers; other.answered += routers }
		other.reached = func() { a.packets += routers; one.answered += routers }
		both := func(d time.Duration) {
			for range d / tick {
				one.step()
				other.step()
			}
		}
		both(5 * time.Minute)
		if one.state(a).Outcome != Passes || other.state(b).Outcome != Passes {
			t.Fatal("the test proves nothing")
		}
		a.rate, b.rate = 0, 0
		both(4 * time.Minute)
		one.sent, other.sent = nil, nil
		both(10 * time.Minute)
		if checks := len(one.sent) + len(other.sent); checks > 0 {
			t.Errorf("counters %s behind: %d checks, though no host sends anything", lag, checks)
		}
	}
}

// TestAnswersSent reads what Linux has.
func TestAnswersSent(t *testing.T) {
	const snmp = "Ip: Forwarding DefaultTTL\nIp: 1 64\n" +
		"Icmp: InMsgs OutDestUnreachs OutTimeExcds OutEchos OutEchoReps\nIcmp: 24 12 30 5 7\nUdp: InDatagrams\nUdp: 9\n"
	if sum, ok := sumOf4([]byte(snmp)); sum != 49 || !ok {
		t.Errorf("%d, %v", sum, ok)
	}
	for _, text := range []string{"", "Icmp: OutEchoReps\n", "Icmp:\n", "\n\n"} {
		if sum, ok := sumOf4([]byte(text)); sum != 0 || ok {
			t.Errorf("%q: %d, %v", text, sum, ok)
		}
	}
	if sum := sumOf6([]byte("Icmp6OutMsgs \t 40\nIcmp6OutDestUnreachs 7\nIcmp6OutTimeExcds 20\nIcmp6OutEchoReplies 5\nIcmp6OutEchos 100\nx\n")); sum != 32 {
		t.Errorf("%d", sum)
	}
	if _, _, ok := answersSent(); !ok {
		t.Error("this kernel's counters are not read")
	}
}
