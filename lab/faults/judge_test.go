// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// sentEvery is a stream of a datagram each second, of which some did not arrive.
func sentEvery(from, to, count int, lost ...int) *stream {
	s := &stream{from: from, to: to, source: host4(from), destination: host6(to)}
	for number := range count {
		at := time.Duration(number) * time.Second
		arrived := at + time.Millisecond
		if slices.Contains(lost, number) {
			arrived = 0
		}
		s.sent, s.arrived = append(s.sent, at), append(s.arrived, arrived)
	}
	return s
}

func TestLossesWithoutACause(t *testing.T) {
	cut := excuse{from: 10 * time.Second, to: 13 * time.Second, site: 1}
	shrunk := excuse{from: 20 * time.Second, to: 30 * time.Second, site: -1, largeOnly: true}
	done := []Done{{"freeze", "xtr2", 15 * time.Second, 16 * time.Second}, {"link-down", "xtr1", 10 * time.Second, 12 * time.Second}, {"mtu", "xtr0", 20 * time.Second, 25 * time.Second}}
	all := []*stream{
		sentEvery(0, 1, 40, 0, 1, 10, 11, 14, 15, 24, 25), // 10, 11 by the cut, 24 is a large one
		sentEvery(2, 0, 40, 11, 39),
	}
	got, sent, excused := losses(all, 2*time.Second, []excuse{cut, shrunk}, done)
	want := []Loss{
		{"10.0.0.10 to fd00:1::10", 14 * time.Second, 2, "link-down xtr1"}, {"10.0.0.10 to fd00:1::10", 25 * time.Second, 1, "mtu xtr0"},
		{"10.2.0.10 to fd00:0::10", 11 * time.Second, 1, "link-down xtr1"}, {"10.2.0.10 to fd00:0::10", 39 * time.Second, 1, "mtu xtr0"},
	}
	for i := range want {
		want[i].Stream = all[min(i/2, 1)].source.String() + " to " + all[min(i/2, 1)].destination.String()
	}
	if !slices.Equal(got, want) || sent != 76 || excused != 3 {
		t.Errorf("%v, %d sent, %d excused; want %v", got, sent, excused, want)
	}
	if r := (&Report{Losses: got}); r.Failed() == nil {
		t.Error("losses are no failure")
	}
	if r := (&Report{}); r.Failed() != nil {
		t.Error("a failure of nothing")
	}
}

// TestWrongDeliveries: a datagram counts where it was sent to alone.
func TestWrongDeliveries(t *testing.T) {
	traffic := &traffic{begun: time.Now(), streams: []*stream{{source: host4(0), destination: host4(1), sent: make([]time.Duration, largeEach), arrived: make([]time.Duration, largeEach)}}}
	datagram := make([]byte, small)
	binary.BigEndian.PutUint32(datagram, marker)
	for _, c := range []struct {
		what     string
		datagram []byte
		at, from netip.Addr
		stream   uint32
		number   uint32
		want     string
	}{
		{"cut", datagram[:small-1], host4(1), host4(0), 0, 0, otherSize},
		{"as sent", datagram, host4(1), host4(0), 0, 0, ""},
		{"again", datagram, host4(1), host4(0), 0, 0, again},
		{"a small one in place of a large one", datagram, host4(1), host4(0), 0, largeEach - 1, otherSize},
		{"another host", datagram, host4(2), host4(0), 0, 0, unsent},
		{"another source", datagram, host4(1), host4(2), 0, 0, unsent},
		{"never sent", datagram, host4(1), host4(0), 0, largeEach, unsent},
		{"no such stream", datagram, host4(1), host4(0), 1, 0, foreign},
		{"a header cut off", datagram[:header-1], host4(1), host4(0), 0, 0, foreign},
		{"of others", make([]byte, small), host4(1), host4(0), 0, 0, foreign},
	} {
		if len(c.datagram) >= header {
			binary.BigEndian.PutUint32(c.datagram[4:], c.stream)
			binary.BigEndian.PutUint32(c.datagram[8:], c.number)
		}
		if got := traffic.take(c.datagram, c.at, c.from); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

// TestReportOfPairsThatWereNotBack does not say that they were.
func TestReportOfPairsThatWereNotBack(t *testing.T) {
	for _, c := range []struct {
		notBack []string
		want    bool
	}{{nil, true}, {[]string{"kill xtr0"}, false}} {
		var text strings.Builder
		(&Report{NotBack: c.notBack}).Write(&text)
		if got := strings.Contains(text.String(), "all back"); got != c.want {
			t.Errorf("%q: %s", c.notBack, text.String())
		}
	}
}
