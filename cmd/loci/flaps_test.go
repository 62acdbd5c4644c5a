// SPDX-License-Identifier: Apache-2.0

package main_test

// Links to the core that flap. Hysteresis chooses between paths that can be used: a router
// uses its last one as soon as its link is up, and so does its site. Times are printed, not
// judged: an answer that shows an interface up and its RLOC down is what fails a test.

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"loci/daemon/api"
	"loci/internal/testnet"
)

const (
	flaps      = 6
	flapLasts  = 400 * time.Millisecond
	flapPause  = time.Second
	lookPause  = 5 * time.Millisecond
	neverHeld  = "an RLOC is held down while its link is up, and no other one is used"
	reasonHeld = "held-down"
)

// hostWatch asks a daemon for its interfaces and own RLOCs all the time.
type hostWatch struct {
	mu      sync.Mutex
	wrong   []string // answers that no router may give
	held    int      // answers with an RLOC that is held down
	stop    context.CancelFunc
	stopped sync.WaitGroup
}

// watchHost looks for own RLOCs that are down though their interface is up, while no other RLOC of their family is up.
func (n *lispNetwork) watchHost(name string) *hostWatch {
	ctx, stop := context.WithCancel(n.t.Context())
	w := &hostWatch{stop: stop}
	w.stopped.Go(func() {
		for ctx.Err() == nil {
			if answer, err := n.client(name).Interfaces(ctx); err == nil {
				w.judge(answer)
			}
			time.Sleep(lookPause)
		}
	})
	n.t.Cleanup(func() { w.end() })
	return w
}

func (w *hostWatch) judge(answer api.Interfaces) {
	up := map[string]bool{}
	for _, i := range answer.Interfaces {
		up[i.Name] = i.Up
	}
	for _, own := range answer.RLOCs {
		held := own.State == "down" && up[own.Interface] && own.Reason != "gateway-silent"
		another := slices.ContainsFunc(answer.RLOCs, func(o api.OwnRLOC) bool { return o.State == "up" && o.RLOC.Is4() == own.RLOC.Is4() })
		w.mu.Lock()
		if own.Reason == reasonHeld {
			w.held++
		}
		if held && !another {
			w.wrong = append(w.wrong, fmt.Sprintf("%s at %s: %s", own.RLOC, own.Interface, own.Reason))
		}
		w.mu.Unlock()
	}
}

// end returns what was seen.
func (w *hostWatch) end() (wrong []string, held int) {
	w.stop()
	w.stopped.Wait()
	return w.wrong, w.held
}

func (n *lispNetwork) expectNeverHeld(watches ...*hostWatch) {
	n.t.Helper()
	for _, w := range watches {
		if wrong, _ := w.end(); len(wrong) > 0 {
			n.t.Errorf("%s: %d answers, such as %s", neverHeld, len(wrong), wrong[0])
		}
	}
}

// keepAddresses keeps IPv6 addresses at links that are set down, as IPv4's are.
func (n *lispNetwork) keepAddresses(roles ...string) {
	n.t.Helper()
	for _, role := range roles {
		n.must(n.at[role].SetSysctl("net.ipv6.conf.all.keep_addr_on_down", "1"))
	}
}

// flap takes the carrier of the other end of a link, and gives it back.
func (n *lispNetwork) flap(role, link string) {
	n.t.Helper()
	n.must(n.at[role].SetUp(link, false))
	time.Sleep(flapLasts)
	n.must(n.at[role].SetUp(link, true))
}

// awaitState waits until a router has its own RLOCs in a state.
func (n *lispNetwork) awaitState(name, state string, rlocs ...string) {
	n.t.Helper()
	n.await(fmt.Sprintf("%v of %s are %s", rlocs, name, state), func(ctx context.Context) bool {
		states := n.ownRLOCs(ctx, name)
		return !slices.ContainsFunc(rlocs, func(r string) bool { return states[r] != state })
	})
}

// withCore is the configuration of site 1 with RLOCs of a family, both or one, at these interfaces.
func (n *lispNetwork) withCore(family string, interfaces ...string) string {
	var locators []string
	for _, name := range interfaces {
		locators = append(locators, fmt.Sprintf("{interface: %s, address-family: %s}", name, family))
	}
	text := strings.Replace(n.xtr(1), "core: [core0]}\n", fmt.Sprintf("core: [%s]}\nlocator-sets: {own: [%s]}\n", strings.Join(interfaces, ", "), strings.Join(locators, ", ")), 1)
	return strings.NewReplacer("eid: 10.1.0.0/24", "eid: 10.1.0.0/24, rlocs: own", "eid: 'fd00:1::/64'", "eid: 'fd00:1::/64', rlocs: own").Replace(text)
}

// TestFlapsOfTheOnlyLink cost the time without a carrier, and no time of being held: of a router with one RLOC, and of one that
// has one of each family.
func TestFlapsOfTheOnlyLink(t *testing.T) {
	t.Parallel() // it mostly waits
	for _, c := range []struct {
		family string
		rlocs  []string
	}{{"ipv4", []string{"172.16.1.2"}}, {"both", []string{"172.16.1.2", "2001:db8:1::2"}}} {
		t.Run(c.family, func(t *testing.T) { flapsOfTheOnlyLink(t, c.family, c.rlocs) })
	}
}

func flapsOfTheOnlyLink(t *testing.T, family string, rlocs []string) {
	n := newLISPNetwork(t)
	n.keepAddresses("core")
	n.run("ms", n.mappingSystem())
	n.run("xtr1", n.withCore(family, "core0"))
	n.run("xtr2", n.xtr(2))
	n.awaitRegistrations(4)
	n.awaitPing("host1", testSite{1}.host4(), testSite{2}.host4())
	watch := n.watchHost("xtr1")
	lost := n.countLost()
	for range flaps {
		n.flap("core", "to-xtr1")
		time.Sleep(flapPause)
	}
	n.awaitState("xtr1", "up", rlocs...)
	for _, end := range [][2]netip.Addr{{testSite{1}.host4(), testSite{2}.host4()}, {testSite{1}.host6(), testSite{2}.host6()}} {
		n.awaitPing("host1", end[0], end[1])
		n.awaitPing("host2", end[1], end[0])
	}
	t.Logf("%d losses of carrier of %s: %s of traffic lost", flaps, flapLasts, lost())
	n.expectNeverHeld(watch)
	n.await("the Map-Server has the RLOCs as reachable", func(ctx context.Context) bool {
		list, err := n.client("ms").Registrations(ctx)
		return err == nil && len(list) == 4 && !slices.ContainsFunc(list, func(r api.Registration) bool {
			return slices.ContainsFunc(r.Locators, func(l api.Locator) bool { return !l.Reachable })
		})
	})
}

// countLost pings from host1 to host2 a hundred times a second, and tells how long no answer came in all.
func (n *lispNetwork) countLost() (end func() time.Duration) {
	const every = 10 * time.Millisecond
	ctx, stop := context.WithCancel(n.t.Context())
	lost := make(chan int, 1)
	go func() {
		count := 0
		for ctx.Err() == nil {
			result, err := testnet.Ping{
				Namespace: n.at["host1"], Source: testSite{1}.host4(), Destination: testSite{2}.host4(), Count: 50, Interval: every, Timeout: 50 * time.Millisecond,
			}.Run(n.t.Context())
			if err != nil {
				n.t.Error(err)
				break
			}
			count += result.Sent + result.Refused - result.Received
		}
		lost <- count
	}()
	return func() time.Duration {
		stop()
		return time.Duration(<-lost) * every
	}
}

// TestFlappingProviderIsHeld while the other provider is there, and used at once when that one goes: for each family apart.
func TestFlappingProviderIsHeld(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	n.keepAddresses("core")
	n.plugCore("core1", "11")
	n.must(n.at["xtr1"].Netlink().RouteAdd(&netlink.Route{Gw: netip.MustParseAddr("172.16.11.1").AsSlice(), Priority: 100}))
	n.must(n.at["xtr1"].Netlink().RouteAdd(&netlink.Route{Gw: netip.MustParseAddr("2001:db8:11::1").AsSlice(), Priority: 2000}))
	n.run("ms", n.mappingSystem())
	n.run("xtr1", n.withCore("both", "core0", "core1"))
	n.run("xtr2", n.xtr(2))
	n.awaitRegistrations(4)
	flapping, stable := []string{"172.16.1.2", "2001:db8:1::2"}, []string{"172.16.11.2", "2001:db8:11::2"}
	watch := n.watchHost("xtr1")
	for range flaps - 1 {
		n.flap("core", "to-xtr1")
		n.awaitState("xtr1", "down", flapping...) // there is time enough: it is held
	}
	n.awaitReason("xtr1", reasonHeld, flapping...)
	for _, rloc := range flapping {
		n.awaitProblem("xtr1", "own-rloc-held-down", rloc)
	}
	if out, code := n.loci("xtr1", "show", "interfaces", "--socket", n.socket("xtr1")); code != 0 || !strings.Contains(out, reasonHeld) {
		t.Errorf("loci show interfaces: %d, %s", code, out)
	}
	n.awaitPing("host1", testSite{1}.host4(), testSite{2}.host4())
	n.must(n.at["core"].SetUp("to-core1", false))
	n.awaitState("xtr1", "down", stable...)
	n.awaitState("xtr1", "up", flapping...)
	n.awaitPing("host1", testSite{1}.host4(), testSite{2}.host4())
	n.awaitPing("host2", testSite{2}.host6(), testSite{1}.host6())
	n.must(n.at["core"].SetUp("to-core1", true))
	n.awaitState("xtr1", "up", append(flapping, stable...)...)
	n.expectNeverHeld(watch)
	if _, held := watch.end(); held == 0 {
		t.Error("no answer showed an RLOC that is held")
	}
}

func (n *lispNetwork) awaitReason(name, reason string, rlocs ...string) {
	n.t.Helper()
	n.await(fmt.Sprintf("%v of %s: %s", rlocs, name, reason), func(ctx context.Context) bool {
		answer, err := n.client(name).Interfaces(ctx)
		return err == nil && !slices.ContainsFunc(answer.RLOCs, func(r api.OwnRLOC) bool {
			return slices.Contains(rlocs, r.RLOC.String()) && r.Reason != reason
		})
	})
}

// TestFlapsAtBothSiblings leave the site reachable by each router whose link is up: together, and in turn.
func TestFlapsAtBothSiblings(t *testing.T) { overEach(t, flapsAtBothSiblings) }

func flapsAtBothSiblings(t *testing.T, over coreFamily) {
	n := newSiblingNetwork(t)
	n.runSiblings(over, false)
	one, three := n.watchHost("xtr1"), n.watchHost("xtr3")
	lost := n.countLost()
	for i := range flaps {
		var flapping sync.WaitGroup
		flapping.Go(func() { n.flap("isp1", "to-xtr1") })
		if i%2 == 1 {
			time.Sleep(flapLasts / 2)
		}
		flapping.Go(func() { n.flap("isp3", "to-xtr3") })
		flapping.Wait()
		n.awaitReachable(over)
	}
	t.Logf("%d losses of carrier of %s at both routers: %s of traffic lost", flaps, flapLasts, lost())
	n.expectNeverHeld(one, three)
	n.await("the other site uses both", func(ctx context.Context) bool { return len(n.usable(ctx, "xtr2", testSite{1}.host4())) == 2 })
	n.awaitPing("host1", testSite{1}.host4(), testSite{2}.host4())
	n.awaitPing("host2", testSite{2}.host6(), testSite{1}.host6())
}

// awaitReachable waits until both routers are up, and everybody registered both RLOCs as reachable.
func (n *lispNetwork) awaitReachable(over coreFamily) {
	n.t.Helper()
	n.awaitState("xtr1", "up", over.xtr1)
	n.awaitState("xtr3", "up", over.xtr3)
	n.await("both RLOCs are registered as reachable", func(ctx context.Context) bool {
		list, err := n.client("ms").Registrations(ctx)
		return err == nil && !slices.ContainsFunc(list, func(r api.Registration) bool {
			return slices.ContainsFunc(r.Locators, func(l api.Locator) bool { return !l.Reachable })
		})
	})
}
