// SPDX-License-Identifier: Apache-2.0

package user

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"

	"loci/dataplane/user/underlay"
)

// sent is a sender that keeps what it was given.
type sent struct {
	cuts     bool
	segments []int
	payloads [][]byte
}

func (s *sent) Add(o *underlay.Outer, pieces ...[]byte) {
	s.segments, s.payloads = append(s.segments, o.Segment), append(s.payloads, slices.Concat(pieces...))
}
func (s *sent) Flush()     {}
func (s *sent) Cuts() bool { return s.cuts }

// TestTrains collects datagrams: to one train where the kernel cuts it, to none where it does not.
func TestTrains(t *testing.T) {
	outer := underlay.Outer{Source: netip.MustParseAddr("192.0.2.1"), To: netip.MustParseAddrPort("192.0.2.2:4341")}
	for _, cuts := range []bool{true, false} {
		s := &sent{cuts: cuts}
		all := trains{sender: s}
		for _, octets := range []int{3, 3, 2} { // the shorter one is the last of a train
			all.add(outer, []byte("head"), bytes.Repeat([]byte("x"), octets))
		}
		all.add(outer, []byte("head"), []byte("other"))
		all.send()
		want := []int{0, 0, 0, 0}
		if cuts {
			want = []int{7, 0}
		}
		if !slices.Equal(s.segments, want) {
			t.Errorf("cut by the kernel: %v: segments of %d octets, want %d", cuts, s.segments, want)
		}
		if all, want := string(slices.Concat(s.payloads...)), "headxxxheadxxxheadxxheadother"; all != want {
			t.Errorf("cut by the kernel: %v: sent %q, want %q", cuts, all, want)
		}
	}
}
