// SPDX-License-Identifier: Apache-2.0

package user

import (
	"context"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/dataplane/conformance"
	"loci/dataplane/user/underlay"
	"loci/lisp"
)

// TestRefusedDatagrams: one that the kernel does not send costs flows their cache entries only where its path carries something else
// than was known, and that is told without an ICMP error.
func TestRefusedDatagrams(t *testing.T) {
	for _, peer := range []netip.Addr{conformance.PeerRLOCs[0], conformance.PeerRLOCs[2]} {
		h := newHarness(t).(*engineHarness)
		e := h.engine
		if errs := e.Apply(dataplane.SetSettings{Settings: h.Settings()}); errs != nil {
			t.Fatal(errs)
		}
		rloc := lisp.RLOCFromAddr(peer)
		if mtu := e.paths.mtu(rloc); mtu != conformance.PathMTU {
			t.Fatalf("the path to %s carries %d", peer, mtu)
		}
		datagram := underlay.Refused{To: netip.AddrPortFrom(peer, 4341), Err: unix.EMSGSIZE, Octets: make([]byte, 100)}
		before := e.generation.Load()
		for range 3 {
			e.errors.refusedByCache(datagram)
		}
		if g := e.generation.Load(); g != before {
			t.Errorf("%s: three refused datagrams make generation %d of %d", peer, g, before)
		}
		h.SetCoreMTU(t, conformance.PathMTU-100)
		e.errors.refusedByCache(datagram)
		if g := e.generation.Load(); g != before+1 {
			t.Errorf("%s: a smaller path makes generation %d of %d", peer, g, before)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		for told := false; !told; {
			select {
			case event := <-e.Events():
				changed, is := event.(dataplane.MTUChanged)
				told = is && changed.RLOC == rloc && changed.MTU == conformance.PathMTU-100
			case <-ctx.Done():
				t.Fatalf("%s: the smaller path is not told", peer)
			}
		}
		cancel()
	}
}

// TestUncutTrain: what the kernel did not cut is taken again packet by packet.
func TestUncutTrain(t *testing.T) {
	e := newHarness(t).(*engineHarness).engine
	train := underlay.Refused{To: netip.AddrPortFrom(conformance.PeerRLOCs[0], 4341), Err: unix.EIO, Segment: 100, Octets: make([]byte, 250)}
	refused := e.errors.refusals.Load()
	e.errors.refusedByCache(train)
	if got := e.errors.refusals.Load() - refused; got != 3 {
		t.Errorf("%d datagrams count as refused, want 3", got)
	}
	if !train.IsUncut() || train.IsTooLong() {
		t.Errorf("uncut %t, too long %t", train.IsUncut(), train.IsTooLong())
	}
	train.Segment = 0
	if train.IsUncut() {
		t.Error("a datagram alone has nothing to be cut")
	}
}
