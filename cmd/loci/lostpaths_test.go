// SPDX-License-Identifier: Apache-2.0

package main_test

// Packets are lost between two routers whose control messages pass: the daemons' own checks find it, and the end of it. What must not
// be taken for it is here as well.

import (
	"context"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"loci/internal/testnet"
)

const (
	// lostToldWithin and lostOverWithin are how soon loci status of one of the routers tells of it, and of both that it is over.
	lostToldWithin, lostOverWithin = 30 * time.Second, 60 * time.Second
	// lostPathFor is how long each fault lasts where tests may take long.
	lostPathFor = time.Minute
)

// stream is UDP at 50 packets a second from a host to another, one way.
type stream struct{ from, to int }

// startStreams runs streams of both families until the test ends.
func (n *lispNetwork) startStreams(list ...stream) {
	n.t.Helper()
	const port = 4000
	for _, s := range list {
		a, b := testSite{s.from}, testSite{s.to}
		for source, destination := range map[netip.Addr]netip.Addr{a.host4(): b.host4(), a.host6(): b.host6()} {
			in, err := n.at["host"+b.name()[3:]].ListenUDP(netip.AddrPortFrom(destination, port))
			n.must(err)
			out, err := n.at["host"+a.name()[3:]].DialUDP(netip.AddrPortFrom(source, 0), netip.AddrPortFrom(destination, port))
			n.must(err)
			stop := make(chan struct{})
			n.t.Cleanup(func() { close(stop); in.Close() })
			go sendUntil(stop, out)
		}
	}
}

func sendUntil(stop <-chan struct{}, out *net.UDPConn) {
	defer out.Close()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			_, _ = out.Write(make([]byte, 100))
		case <-stop:
			return
		}
	}
}

// awaitDataPath waits until `loci show locators` says so of the data paths to both RLOC families that are in use.
func (n *lispNetwork) awaitDataPath(name, rloc, state string, octets bool) {
	n.t.Helper()
	n.await(name+" says that its data path to "+rloc+" is "+state, func(ctx context.Context) bool {
		d := n.locator(ctx, name, rloc).DataPath
		return d != nil && d.State == state && (!octets || d.Octets != nil)
	})
}

// problemKinds are those that are critical or warnings.
func (n *lispNetwork) problemKinds(names ...string) (kinds []string) {
	for _, name := range names {
		h, _ := n.status(name)
		for _, p := range h.Problems {
			if p.Urgency != "notice" {
				kinds = append(kinds, name+" "+p.Kind)
			}
		}
	}
	return kinds
}

// cutPath has the core drop something and follows what the two routers tell.
func (n *lispNetwork) cutPath(what, rule, kind string) {
	n.t.Helper()
	n.nft("core", forwarded(rule))
	began := time.Now()
	n.awaitWithin(lostToldWithin, what+": one of the two says problems", func(context.Context) bool {
		return slices.ContainsFunc(n.problemKinds("xtr1", "xtr2"), func(k string) bool { return strings.HasSuffix(k, " "+kind) })
	})
	told := time.Since(began)
	if os.Getenv(longTests) == "1" {
		time.Sleep(time.Until(began.Add(lostPathFor)))
	}
	if kinds := n.problemKinds("xtr1", "xtr2"); slices.ContainsFunc(kinds, func(k string) bool { return !strings.HasSuffix(k, " "+kind) }) {
		n.t.Errorf("%s: %v", what, kinds)
	}
	n.nft("core", "")
	began = time.Now()
	n.awaitWithin(lostOverWithin, what+" is over: both are healthy", func(context.Context) bool { return len(n.problemKinds("xtr1", "xtr2")) == 0 })
	n.t.Logf("%s: told after %s, over %s after its end", what, told.Round(100*time.Millisecond), time.Since(began).Round(100*time.Millisecond))
}

func TestLostDataPathsAreTold(t *testing.T) {
	testnet.RequireProgram(t, "nft")
	t.Parallel() // it mostly waits
	for _, engine := range []string{"kernel", "user"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			n := newLISPNetwork(t)
			n.engine = engine
			n.runAll()
			n.startStreams(stream{1, 2}, stream{2, 1})
			for number, rloc := range map[string]string{"xtr1": testSite{2}.rloc4(), "xtr2": testSite{1}.rloc4()} {
				n.awaitDataPath(number, rloc, "passes", true)
			}
			const toTwo, toOne = `iifname "to-xtr1" oifname "to-xtr2" `, `iifname "to-xtr2" oifname "to-xtr1" `
			faults := []struct{ what, rule, kind string }{
				{"4341 towards site 2", toTwo + "udp dport 4341 drop", "data-path-lost"},
				{"large packets towards site 2", toTwo + "meta length > 1400 drop", "path-mtu-black-hole"},
				{"4341 both ways", "udp dport 4341 drop", "data-path-lost"},
				{"4341 towards site 1", toOne + "udp dport 4341 drop", "data-path-lost"},
				{"large packets towards site 1", toOne + "meta length > 1400 drop", "path-mtu-black-hole"},
				{"large packets both ways", "meta length > 1400 drop", "path-mtu-black-hole"},
			}
			if os.Getenv(longTests) != "1" {
				faults = faults[:2]
			}
			for _, f := range faults {
				n.cutPath(f.what, f.rule, f.kind)
			}
		})
	}
}
