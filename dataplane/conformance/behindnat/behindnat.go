// SPDX-License-Identifier: Apache-2.0

package behindnat

// The tests: what is sent from the site, and what becomes of it at the NAT box. Nothing here knows an engine.

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"
	"time"

	"loci/dataplane"
	"loci/dataplane/conformance"
	"loci/dataplane/conformance/links"
	"loci/internal/testnet"
	"loci/lisp"
)

const (
	flows    = 200
	dataPort = 4341
	patience = 10 * time.Second
)

// Factory makes an engine at a network.
type Factory func(t testing.TB, n *links.Network) conformance.Harness

// Run runs the tests, several at a time.
func Run(t *testing.T, factory Factory) {
	for i, family := range []string{"IPv4", "IPv6"} {
		t.Run("Masquerade"+family, func(t *testing.T) {
			t.Parallel()
			masqueraded(newBench(t, factory), links.FarPeers[i])
		})
	}
	t.Run("NAT64", func(t *testing.T) {
		t.Parallel()
		translated(newBench(t, factory))
	})
}

type bench struct {
	*testing.T
	conformance.Harness
	plane dataplane.Plane
	box   *testnet.Namespace
}

func newBench(t *testing.T, factory Factory) *bench {
	n, box := links.NewBehind(t)
	h := factory(t, n)
	b := &bench{T: t, Harness: h, plane: h.Plane(), box: box}
	b.apply(dataplane.SetSettings{Settings: h.Settings()})
	own := lisp.Locator{RLOC: lisp.RLOCFromAddr(conformance.OwnRLOC4), Priority: 1, Weight: 100, Reachable: true}
	b.apply(dataplane.PutDatabase{Entry: dataplane.DatabaseEntry{Prefix: lisp.MustParsePrefix("10.1.0.0/24"), Locators: b.set(own)}})
	return b
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) apply(operations ...dataplane.Operation) {
	b.Helper()
	b.must(errors.Join(b.plane.Apply(operations...)...))
}

func (b *bench) set(l lisp.Locator) lisp.LocatorSet {
	b.Helper()
	set, err := lisp.NewLocatorSet(l)
	b.must(err)
	return set
}

// to has the remote site behind an RLOC, with a source port or, for 0, the flows'.
func (b *bench) to(rloc netip.Addr, port uint16) {
	b.Helper()
	l := lisp.Locator{RLOC: lisp.RLOCFromAddr(rloc), Priority: 1, Weight: 100, Reachable: true, SourcePort: port}
	now := time.Now()
	b.apply(dataplane.PutMapping{Entry: dataplane.MapCacheEntry{
		Mapping:   lisp.Mapping{Prefix: lisp.MustParsePrefix("10.2.0.0/24"), Locators: b.set(l), TTLMinutes: 1440},
		CreatedAt: now, ExpiresAt: now.Add(24 * time.Hour),
	}})
}

// remote is an EID of the other site.
var remote = netip.MustParseAddr("10.2.0.1")

// flow is a packet of a flow from the site.
func flow(number, octets int) []byte {
	return udp(netip.AddrPortFrom(conformance.SiteHosts[0], uint16(2000+number)), netip.AddrPortFrom(remote, 9), make([]byte, octets))
}

// send sends a packet of each flow and returns what arrives at the core of them; 0 octets where one does not.
func (b *bench) send(number int) (arrived [][]byte) {
	b.Helper()
	for i := range number {
		b.SendFromSite(b, flow(i, 40+i))
		packet, _ := b.ReceiveAtCore(b)
		arrived = append(arrived, packet)
	}
	return arrived
}

// expectAll demands that all flows arrive, with a checksum, from one source; which it returns.
func (b *bench) expectAll(arrived [][]byte) (from netip.AddrPort) {
	b.Helper()
	for i, packet := range arrived {
		if packet == nil {
			b.Fatalf("flow %d did not arrive; counters %+v", i, b.plane.Counters())
		}
		b.must(checkSum(packet))
		o, err := readOuter(packet)
		b.must(err)
		if from.IsValid() && o.source != from {
			b.Fatalf("flow %d comes from %s, others from %s", i, o.source, from)
		}
		from = o.source
	}
	return from
}

// expectBack demands that a packet of the peer, sent to where the node's come from, arrives at the site.
func (b *bench) expectBack(peer netip.AddrPort, node netip.AddrPort) {
	b.Helper()
	inner := udp(netip.AddrPortFrom(remote, 9), netip.AddrPortFrom(conformance.SiteHosts[0], 2000), []byte("back"))
	b.SendFromCore(b, encapsulated(peer, node, inner))
	got, ok := b.ReceiveAtSite(b)
	if !ok || !bytes.HasSuffix(got, []byte("back")) {
		b.Fatalf("%x arrived at the site (%t); counters %+v", got, ok, b.plane.Counters())
	}
}

// expectMTU demands that an ICMP error about a large packet is believed.
func (b *bench) expectMTU(from netip.Addr, said int, want dataplane.MTUChanged) {
	b.Helper()
	b.SendFromSite(b, flow(0, 1400))
	large, _ := b.ReceiveAtCore(b)
	b.expectAll([][]byte{large})
	b.SendFromCore(b, tooBig(from, large, said))
	if got := b.nextMTU(); got != want {
		b.Errorf("%+v, want %+v", got, want)
	}
}

func (b *bench) nextMTU() (changed dataplane.MTUChanged) {
	b.Helper()
	deadline := time.After(patience)
	for is := false; !is; {
		select {
		case event := <-b.plane.Events():
			changed, is = event.(dataplane.MTUChanged)
		case <-deadline:
			b.Fatalf("the ICMP error was not believed; counters %+v", b.plane.Counters())
		}
	}
	return changed
}

// masqueraded: all flows to a locator with a source port share one binding, those to one without have many.
func masqueraded(b *bench, peer netip.Addr) {
	nat := testnet.NAT{Namespace: b.box, Outside: links.Outside}
	b.must(nat.Start())
	b.to(peer, dataPort)
	node := b.expectAll(b.send(flows))
	to := netip.AddrPortFrom(peer, dataPort)
	n, err := nat.Bindings(to)
	b.must(err)
	if n != 1 {
		b.Errorf("%d flows from one port have %d bindings, want 1", flows, n)
	}
	b.expectBack(to, node)
	b.expectMTU(peer, 1300, dataplane.MTUChanged{RLOC: lisp.RLOCFromAddr(peer), MTU: 1300})

	b.must(nat.Forget())
	b.to(peer, 0)
	b.send(flows)
	n, err = nat.Bindings(to)
	b.must(err)
	b.Logf("%d flows from their own ports have %d bindings", flows, n)
	if n < 8 {
		b.Errorf("%d flows from their own ports have %d bindings: the test says nothing", flows, n)
	}
}

// The NAT64: its prefix stands for all of IPv4, and its pool for nodes of IPv6.
var (
	nat64Prefix = netip.MustParsePrefix("2001:db8:64::/96")
	nat64Pool   = netip.MustParsePrefix("192.168.255.0/24")
)

// translated: a node with IPv6 alone, behind a NAT64, and a peer with IPv4 alone.
func translated(b *bench) {
	testnet.NAT64{Namespace: b.box, Prefix: nat64Prefix, Pool: nat64Pool}.Start(b)
	peer := links.FarPeers[0]
	rloc := lisp.NAT64Address(nat64Prefix, peer)

	b.to(rloc, dataPort)
	var first []byte
	for deadline := time.Now().Add(patience); first == nil && time.Now().Before(deadline); { // until tayga runs
		first = b.send(1)[0]
	}
	node := b.expectAll(append(b.send(20), first))
	if node.Port() != dataPort || !nat64Pool.Contains(node.Addr()) {
		b.Errorf("packets come from %s", node)
	}
	b.expectBack(netip.AddrPortFrom(peer, 4342), node)
	b.expectMTU(peer, 1400, dataplane.MTUChanged{RLOC: lisp.RLOCFromAddr(rloc), MTU: 1420})

	b.to(rloc, 0)
	through := 0
	for _, packet := range b.send(5) {
		if packet != nil {
			through++
		}
	}
	b.Logf("without a source port %d of 5 packets passed the NAT64", through)
}
