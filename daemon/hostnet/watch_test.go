// SPDX-License-Identifier: Apache-2.0

package hostnet

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"loci/internal/testnet"
)

// hear listens in a namespace until the test ends.
func hear(t *testing.T, ns *testnet.Namespace, changes ...func(*Watch)) *Watch {
	t.Helper()
	news := NewWatch(143, slog.New(slog.DiscardHandler))
	for _, change := range changes {
		change(news)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = ns.Do(func() error { news.Run(ctx); return nil }) })
	t.Cleanup(func() { cancel(); running.Wait() })
	awaitNews(t, "the beginning", news.Urgent)
	return news
}

func awaitNews(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(time.Minute):
		t.Fatalf("%s: no news", what)
	}
}

func TestNewsOfTheHost(t *testing.T) {
	network := testnet.ForTest(t)
	ns, err := network.Namespace("xtr")
	if err != nil {
		t.Fatal(err)
	}
	news := hear(t, ns)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "core0"}}
	must(ns.Netlink().LinkAdd(bridge))
	must(ns.SetUp("core0", true))
	awaitNews(t, "a new interface", news.Urgent)
	must(ns.AddAddress("core0", netip.MustParsePrefix("192.0.2.1/24")))
	awaitNews(t, "an address", news.Settling)

	quiet(news)
	own := &netlink.Route{Dst: NetOf(netip.MustParsePrefix("203.0.113.0/24")), LinkIndex: bridge.Index, Protocol: 143}
	must(ns.Netlink().RouteAdd(own))
	select {
	case <-news.Settling:
		t.Error("a route of our own is no news")
	case <-time.After(100 * time.Millisecond):
	}
	must(ns.Netlink().RouteDel(own))
	awaitNews(t, "a route of ours that went", news.Settling)
	must(ns.AddRoute(testnet.Route{Destination: netip.MustParsePrefix("198.51.100.0/24"), Link: "core0"}))
	awaitNews(t, "a route", news.Settling)
}

// TestMobileNodeHearsAtOnce: default routes are urgent, addresses and other routes are not.
func TestMobileNodeHearsAtOnce(t *testing.T) {
	network := testnet.ForTest(t)
	ns, err := network.Namespace("mn")
	if err != nil {
		t.Fatal(err)
	}
	news := hear(t, ns, func(w *Watch) { w.Prompt = func() bool { return true } })
	if err := ns.Netlink().LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "wlan0"}}); err != nil {
		t.Fatal(err)
	}
	if err := ns.SetUp("wlan0", true); err != nil {
		t.Fatal(err)
	}
	quiet(news)
	if err := ns.AddAddress("wlan0", netip.MustParsePrefix("192.0.2.1/24")); err != nil {
		t.Fatal(err)
	}
	awaitNews(t, "an address", news.Settling)
	quiet(news)
	if err := ns.AddRoute(testnet.Route{Destination: netip.MustParsePrefix("198.51.100.0/24"), Link: "wlan0"}); err != nil {
		t.Fatal(err)
	}
	awaitNews(t, "a route", news.Settling)
	if err := ns.AddRoute(testnet.Route{Destination: netip.MustParsePrefix("0.0.0.0/0"), Link: "wlan0"}); err != nil {
		t.Fatal(err)
	}
	awaitNews(t, "a default route", news.Urgent)
}

// quiet waits until nothing is told any more.
func quiet(news *Watch) {
	for {
		select {
		case <-news.Urgent:
		case <-news.Settling:
		case <-time.After(200 * time.Millisecond):
			return
		}
	}
}

// TestOverrunMeansALook: what was lost is looked up.
func TestOverrunMeansALook(t *testing.T) {
	network := testnet.ForTest(t)
	ns, err := network.Namespace("xtr")
	if err != nil {
		t.Fatal(err)
	}
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "core0"}}
	if err := ns.Netlink().LinkAdd(bridge); err != nil {
		t.Fatal(err)
	}
	if err := ns.SetUp("core0", true); err != nil {
		t.Fatal(err)
	}
	news := NewWatch(143, slog.New(slog.DiscardHandler))
	news.bufferOctets = 1 // the kernel makes its least of it: a few messages
	release := make(chan struct{})
	news.beforeReading = func() { <-release }
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = ns.Do(func() error { news.Run(ctx); return nil }) })
	defer running.Wait()
	defer cancel()
	awaitNews(t, "the beginning", news.Urgent)
	for i := range 200 {
		if err := ns.AddAddress("core0", netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 32)); err != nil {
			t.Fatal(err)
		}
	}
	close(release)
	awaitNews(t, "an overrun", news.Urgent)
	if news.Lost.Load() == 0 {
		t.Error("the overrun is not counted")
	}
}
