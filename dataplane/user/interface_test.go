// SPDX-License-Identifier: Apache-2.0

// What becomes of an engine whose TUN somebody deletes, and of the TUN's MTU. The tests need root.

package user

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"loci/dataplane"
	"loci/dataplane/conformance/links"
	"loci/internal/testnet"
)

// patience bounds what a test waits for.
const patience = 30 * time.Second

func eventually(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !reached(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// openedRouter is an engine that tells when its TUN was made anew, at a router with an interface to the site and one to the core.
func openedRouter(t *testing.T) (e *Engine, router, other *testnet.Namespace, remade <-chan struct{}) {
	t.Helper()
	network := testnet.ForTest(t)
	router, err := network.Namespace("xtr")
	must(t, err)
	other, err = network.Namespace("other")
	must(t, err)
	for _, name := range []string{links.Site, links.Core} {
		must(t, testnet.Connect(testnet.End{Namespace: router, Name: name}, testnet.End{Namespace: other, Name: name}))
	}
	told := make(chan struct{}, 64)
	must(t, router.Do(func() (err error) {
		e, err = Open(Options{Remade: func() { told <- struct{}{} }})
		return err
	}))
	t.Cleanup(func() { must(t, e.Detach(context.Background())) })
	return e, router, other, told
}

// TestTUNIsKept deletes the TUN, sets it down, renames it, and moves it to another network namespace: each time it is as it was
// soon after, and the queues go on.
func TestTUNIsKept(t *testing.T) {
	e, router, there, remade := openedRouter(t)
	handle := router.Netlink()
	tests := []struct {
		name string
		make func(netlink.Link) error
	}{
		{"deleted", handle.LinkDel},
		{"deleted again", handle.LinkDel},
		{"set down", handle.LinkSetDown},
		{"renamed", func(device netlink.Link) error {
			return errors.Join(handle.LinkSetDown(device), handle.LinkSetName(device, "other"), handle.LinkSetUp(device))
		}},
		{"moved", func(device netlink.Link) error {
			fd, err := os.Open(there.Path())
			if err != nil {
				return err
			}
			defer fd.Close()
			return handle.LinkSetNsFd(device, int(fd.Fd()))
		}},
	}
	for _, amiss := range tests {
		before := e.Counters().Other["tun_renewed"]
		device, err := handle.LinkByName(DefaultInterface)
		must(t, err)
		must(t, amiss.make(device))
		eventually(t, amiss.name+": it is counted", func() bool { return e.Counters().Other["tun_renewed"] > before })
		eventually(t, amiss.name+": it is told", func() bool { return len(remade) > 0 })
		eventually(t, amiss.name+": it is as it was", func() bool {
			kept, err := handle.LinkByName(DefaultInterface)
			return err == nil && kept.Attrs().Flags&net.FlagUp != 0 && kept.Attrs().Index == e.tun.Index()
		})
		for len(remade) > 0 {
			<-remade
		}
		for i, q := range e.tun.Queues {
			if err := q.Writer().Write(make([]byte, 10), []byte{0x45}); err != nil { // which the host's stack drops
				t.Errorf("%s: queue %d: %v", amiss.name, i, err)
			}
		}
	}
	eventually(t, "the one that was moved is gone", func() bool {
		_, err := there.Netlink().LinkByName(DefaultInterface)
		return errors.As(err, &netlink.LinkNotFoundError{})
	})
	if _, err := handle.LinkByName("other"); !errors.As(err, &netlink.LinkNotFoundError{}) {
		t.Errorf("the one that was renamed is left: %v", err)
	}
}

// TestTUNTakesTheLargestMTU follows the MTU of the interfaces by which packets come in.
func TestTUNTakesTheLargestMTU(t *testing.T) {
	e, router, _, _ := openedRouter(t)
	handle := router.Netlink()
	expect := func(what string, want int) {
		t.Helper()
		eventually(t, what, func() bool {
			link, err := handle.LinkByName(DefaultInterface)
			must(t, err)
			return link.Attrs().MTU == want
		})
	}
	expect("without interfaces", 1500)
	must(t, router.SetMTU(links.Site, 9000))
	must(t, router.SetMTU(links.Core, 8000))
	settings := e.Settings()
	settings.Interfaces = []dataplane.Interface{{Name: links.Site}, {Name: links.Core, Side: dataplane.SideCore}}
	if errs := e.Apply(dataplane.SetSettings{Settings: settings}); errs != nil {
		t.Fatal(errs)
	}
	link, err := handle.LinkByName(DefaultInterface)
	must(t, err)
	if link.Attrs().MTU != 9000 {
		t.Errorf("the MTU is %d when the settings are in force", link.Attrs().MTU)
	}
	must(t, router.SetMTU(links.Site, 7000))
	expect("the site's became smaller", 7000)
	must(t, router.SetMTU(links.Site, 1280))
	expect("the site's is small", 1500)
	settings.Roles = []dataplane.RolePolicy{{Role: dataplane.RolePITR, EIDs: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}}}
	if errs := e.Apply(dataplane.SetSettings{Settings: settings}); errs != nil {
		t.Fatal(errs)
	}
	expect("a PITR gets packets from the core", 8000)
	device, err := handle.LinkByName(DefaultInterface)
	must(t, err)
	must(t, handle.LinkDel(device))
	eventually(t, "a new one has it as well", func() bool {
		link, err := handle.LinkByName(DefaultInterface)
		return err == nil && link.Attrs().MTU == 8000
	})
}
