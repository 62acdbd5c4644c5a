// SPDX-License-Identifier: Apache-2.0

package control

// Several sites at one Map-Server: to it an EID-Prefix is one, whichever site of ours it is of. What goes on being
// registered there must not be withdrawn.

import (
	"net/netip"
	"testing"

	"loci/control/internal/etr"
)

// sharedConfig has one Map-Server at that address for each of those sites, and so many EID-Prefixes of the site that is named for each.
func sharedConfig(count int, address string, sites []string, site func(i int) string) Config {
	c := announceConfig(count, site, everywhere("192.0.2.1"))
	c.ETR.MapServers = nil
	for _, name := range sites {
		c.ETR.MapServers = append(c.ETR.MapServers, MapServerPeer{Address: netip.MustParseAddrPort(address), Site: name, Key: secret(1), WantMapNotify: true})
	}
	return c
}

// serverHas fails unless the Map-Server has all that is configured.
func (a *announced) serverHas(t *testing.T, address string, c Config) {
	t.Helper()
	has := a.servers[netip.MustParseAddrPort(address).Addr()]
	for _, m := range c.ETR.Database {
		if _, ok := has[m.Prefix]; !ok {
			t.Fatalf("the Map-Server lacks %s, which is of site %s", m.Prefix, m.Site)
		}
	}
	if len(has) != len(c.ETR.Database) {
		t.Fatalf("the Map-Server has %d EID-Prefixes: want %d", len(has), len(c.ETR.Database))
	}
}

var south = everywhere("south")

// TestSiteOfAMapServerIsRenamed: the Map-Server of the old name leaves, that of the new one is the same.
func TestSiteOfAMapServerIsRenamed(t *testing.T) {
	for _, address := range leavingAddresses {
		was, is := sharedConfig(4*etr.AnnounceBatch, address, []string{"north"}, north), sharedConfig(4*etr.AnnounceBatch, address, []string{"south"}, south)
		a := newAnnounced(t, was)
		a.settle(t)
		a.reload(t, is)
		a.settle(t)
		a.serverHas(t, address, is)
		a.shutDown(t)
		a.serverHas(t, address, is)
	}
}

// TestEIDPrefixesMoveToAnotherSiteOfAMapServer in either direction, and back before all is done.
func TestEIDPrefixesMoveToAnotherSiteOfAMapServer(t *testing.T) {
	sites := []string{"north", "south"}
	for _, address := range leavingAddresses {
		for _, iterations := range []int{0, 1, 4, 12} {
			northern, southern := sharedConfig(4*etr.AnnounceBatch, address, sites, north), sharedConfig(4*etr.AnnounceBatch, address, sites, south)
			a := newAnnounced(t, northern)
			a.settle(t)
			for _, c := range []Config{southern, northern} {
				a.reload(t, c)
				a.settle(t)
				a.serverHas(t, address, c)
			}
			a.reload(t, southern)
			for range iterations {
				a.iterate()
			}
			a.shutDown(t)
			a.serverHas(t, address, southern)
		}
	}
}

// TestETRComesBackWithAnotherSite while what it left behind is being withdrawn.
func TestETRComesBackWithAnotherSite(t *testing.T) {
	for _, address := range leavingAddresses {
		for _, iterations := range []int{0, 10, 30, 50} {
			was, is := sharedConfig(24*etr.AnnounceBatch, address, []string{"north"}, north), sharedConfig(24*etr.AnnounceBatch, address, []string{"south"}, south)
			off := was
			off.ETR = nil
			a := newAnnounced(t, was)
			a.settle(t)
			a.reload(t, off)
			for range iterations {
				a.iterate()
			}
			a.look(t)
			a.reload(t, is)
			for len(a.retired) > 0 {
				a.iterate()
			}
			if n := a.withdrawals(t, netip.MustParseAddrPort(address).Addr()); n > 0 {
				t.Fatalf("after %d iterations: %d Map-Registers with TTL 0 for what is configured", iterations, n)
			}
			a.settle(t)
			a.serverHas(t, address, is)
		}
	}
}

// TestMapServerOfASiteThatLeftComesBackForAnother while its withdrawals are being repeated.
func TestMapServerOfASiteThatLeftComesBackForAnother(t *testing.T) {
	for _, address := range leavingAddresses {
		for _, iterations := range []int{0, 1, 4, 12} {
			was, is := sharedConfig(4*etr.AnnounceBatch, address, []string{"north"}, north), sharedConfig(4*etr.AnnounceBatch, address, []string{"south"}, south)
			none := was
			etr := *was.ETR
			etr.MapServers = nil
			none.ETR = &etr
			a := newAnnounced(t, was)
			a.settle(t)
			a.reload(t, none)
			for range iterations {
				a.iterate()
			}
			a.reload(t, is)
			a.settle(t)
			a.serverHas(t, address, is)
		}
	}
}
