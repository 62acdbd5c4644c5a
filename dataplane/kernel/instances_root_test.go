// SPDX-License-Identifier: Apache-2.0

// Equal EIDs in two Instance-IDs (RFC 9300 s.8), with real hosts. The tests need root.

package kernel

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"loci/dataplane"
	"loci/internal/testnet"
	"loci/lisp"
)

const otherInstance = 7

// twin gives a site a second host with the first one's addresses, behind an interface
// of its own.
func (n *network) twin(t *testing.T, spaces *testnet.Network, site int) *testnet.Namespace {
	t.Helper()
	host, err := spaces.Namespace(fmt.Sprintf("twin%d", site))
	must(t, err)
	xtr := n.routers[site].ns
	prefixes := func(last int) []netip.Prefix {
		return []netip.Prefix{netip.PrefixFrom(siteAddress4(site, last), 24), netip.PrefixFrom(siteAddress6(site, last), 64)}
	}
	must(t, testnet.Connect(testnet.End{Namespace: host, Name: "eth0", Addresses: prefixes(10)},
		testnet.End{Namespace: xtr, Name: "site7", Addresses: prefixes(1)}))
	must(t, host.AddRoute(testnet.Route{Destination: netip.MustParsePrefix("0.0.0.0/0"), Via: siteAddress4(site, 1)}))
	must(t, host.AddRoute(testnet.Route{Destination: netip.MustParsePrefix("::/0"), Via: siteAddress6(site, 1)}))
	must(t, xtr.Forward())
	for _, name := range []string{"all", "site7"} { // of two equal networks it takes one for forged
		must(t, xtr.SetSysctl("net.ipv4.conf."+name+".rp_filter", "0"))
	}
	return host
}

// rxPackets is how many packets a host has received.
func rxPackets(t *testing.T, ns *testnet.Namespace) uint64 {
	t.Helper()
	link, err := ns.Netlink().LinkByName("eth0")
	must(t, err)
	return link.Attrs().Statistics.RxPackets
}

func inOther(t *testing.T, p lisp.Prefix) lisp.Prefix {
	t.Helper()
	moved, err := lisp.PrefixFrom(otherInstance, p.EID(), p.Bits())
	must(t, err)
	return moved
}

// TestInstancesWithEqualEIDs demands that every host reaches the one of its own
// Instance-ID, and no host the other.
func TestInstancesWithEqualEIDs(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	spaces := testnet.ForTest(t)
	twins := [2]*testnet.Namespace{n.twin(t, spaces, 0), n.twin(t, spaces, 1)}
	for i, r := range n.routers {
		settings := r.Settings()
		settings.Interfaces = append(settings.Interfaces, dataplane.Interface{Name: "site7", Side: dataplane.SideSite, Instance: otherInstance})
		r.apply(t, dataplane.SetSettings{Settings: settings})
		for _, o := range siteOperations(i)[1:] {
			database := o.(dataplane.PutDatabase)
			database.Entry.Prefix = inOther(t, database.Entry.Prefix)
			r.apply(t, database)
		}
		for _, o := range mappingOf(1-i, rloc4) {
			mapping := o.(dataplane.PutMapping)
			r.apply(t, mapping)
			mapping.Entry.Mapping.Prefix = inOther(t, mapping.Entry.Mapping.Prefix)
			r.apply(t, mapping)
		}
	}
	for _, c := range []struct {
		name          string
		hosts, others [2]*testnet.Namespace
		hook          dataplane.Hook
	}{
		{"default instance", n.hosts, twins, dataplane.HookTC}, {"instance 7", twins, n.hosts, dataplane.HookTC},
		{"default instance", n.hosts, twins, dataplane.HookXDP}, {"instance 7", twins, n.hosts, dataplane.HookXDP},
	} {
		n.setSides(t, c.hook)
		for _, p := range pairs[:2] {
			t.Run(fmt.Sprintf("%s, %v, %s", c.name, c.hook, p.name), func(t *testing.T) {
				before := rxPackets(t, c.others[1])
				n.expectPings(t, c.hosts[0], p.inner(0, 10), p.inner(1, 10))
				if after := rxPackets(t, c.others[1]); after-before >= 5 {
					t.Errorf("the host of the other instance got %d packets", after-before)
				}
			})
		}
	}
	// What is for the stack knows one instance alone.
	before := n.routers[1].Counters().Drops["other-instance"]
	_, err := testnet.Ping{Namespace: twins[0], Source: siteAddress4(0, 10), Destination: siteAddress4(1, 1), Count: 1, Timeout: time.Second}.Run(t.Context())
	must(t, err)
	if n.routers[1].Counters().Drops["other-instance"] == before {
		t.Errorf("a packet of another instance reached the stack;%s", n.report())
	}
}
