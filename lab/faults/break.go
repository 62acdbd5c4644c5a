// SPDX-License-Identifier: Apache-2.0

package faults

// The faults: how each begins, how it ends, and which losses it excuses.

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"loci/config"
	"loci/internal/testnet"
)

// A kind of fault. What start does, end undoes.
type kind struct {
	name    string
	targets []string
	start   func(ctx context.Context, n *network, target string) error
	end     func(ctx context.Context, n *network, target string) error
	// excuses says what is lost while it lasts and after; nil: nothing may be.
	excuses func(target string, from, to time.Duration) []excuse
	longest time.Duration // 0: longestFault
	// notWith is a kind that does not happen meanwhile, nor the other way round.
	notWith string
	// says are the problems of which a daemon must name one; such a fault lasts verdictFault, apart from others.
	says []string
}

const (
	// inFlight is how long before a cut datagrams may have been sent that it hits.
	inFlight = 200 * time.Millisecond
	// failover is how long packets are lost where a site has another router: the target of loci bench failover.
	failover = 100 * time.Millisecond
	// longestSilence is how long control messages are dropped at most.
	longestSilence = 40 * time.Second
)

const (
	smallerMTU = 1400 // of a link of the core: large datagrams do not fit with the outer headers
	filler     = "filler"
)

// kinds are all faults for an engine. One in the kernel goes on while its daemon is dead or frozen, one in user space
// does not.
func kinds(engine config.EngineChoice, p plan) []kind {
	whileDead := func(string, time.Duration, time.Duration) []excuse { return nil }
	if engine == config.EngineUser {
		whileDead = cut
	}
	return []kind{
		{name: "kill", targets: p.xtrNames(), start: kill, end: startAgain, excuses: whileDead},
		{name: "freeze", targets: p.xtrNames(), start: freeze, end: thaw, excuses: whileDead},
		{name: "kill", targets: []string{msName}, start: kill, end: startAgain},
		{name: "freeze", targets: []string{msName}, start: freeze, end: thaw},
		{name: "link-down", targets: p.xtrNames(1), start: linkDown, end: linkUp, excuses: cut},
		{name: "link-down", targets: p.xtrNames(2), start: linkDown, end: linkUp, excuses: failsOver, notWith: "control-dropped"},
		{name: "link-down", targets: []string{msName}, start: linkDown, end: linkUp},
		{name: "mtu", targets: p.xtrNames(), start: shrink, end: widen, excuses: tooBig},
		{name: "store-full", targets: []string{msName}, start: fillStore, end: emptyStore},
		{name: "control-dropped", targets: places(append([]string{coreName}, p.xtrNames()...)), start: dropControl, end: passControl, longest: longestSilence, notWith: "link-down"},
	}
}

// cut excuses all of a site.
func cut(target string, from, to time.Duration) []excuse {
	return []excuse{{from: from - inFlight, to: to + recovery, site: siteOf(target)}}
}

// failsOver excuses what is lost until the site's other router has the packets, and until they are back.
func failsOver(target string, from, to time.Duration) []excuse {
	return []excuse{{from: from - inFlight, to: from + failover, site: siteOf(target)}, {from: to - inFlight, to: to + failover, site: siteOf(target)}}
}

// missedFailovers excuse what a site sends to a router whose link went down while the site's own daemon was dead or
// frozen: it does not see that packets are to take the other router.
func missedFailovers(faults []*fault, ended time.Duration) (list []excuse) {
	for _, down := range faults {
		for _, silent := range faults {
			if down.name != "link-down" || silent.name != "freeze" && silent.name != "kill" || down.target == msName || silent.target == msName {
				continue
			}
			list = append(list, excuse{
				from: down.from - inFlight, to: ended + failover, site: siteOf(down.target), towardsOnly: true, senders: []int{siteOf(silent.target)},
			})
		}
	}
	return list
}

// tooBig excuses large datagrams until their hosts have learnt of the smaller MTU, and later the one by which a host
// learns of it that comes to such a path.
func tooBig(target string, from, to time.Duration) []excuse {
	site := siteOf(target)
	return []excuse{
		{from: from - inFlight, to: from + learning, site: site, largeOnly: true},
		{from: to - inFlight, to: to + learning, site: site, largeOnly: true},
		{from: from, to: to + remembered, site: site, largeOnly: true, discovery: true},
	}
}

func siteOf(target string) int {
	name, _, _ := strings.Cut(target, " ")
	site, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(name, "xtr"), "b"))
	if err != nil {
		panic(err) // no other name is a target of these
	}
	return site
}

// Directions in which the core drops something at a router.
const (
	towards = "towards"
	from    = "from"
	both    = "both"
)

// places are where the core can drop something: everywhere, or on the way to or from a router.
func places(names []string) (list []string) {
	for _, name := range names {
		if name == coreName {
			list = append(list, name)
			continue
		}
		for _, direction := range []string{towards, from, both} {
			list = append(list, name+" "+direction)
		}
	}
	return list
}

// drops are the rules for one place.
func drops(place string, d testnet.Drop) (list []testnet.Drop) {
	name, direction, _ := strings.Cut(place, " ")
	if name == coreName {
		return []testnet.Drop{d}
	}
	if direction != from {
		d.In, d.Out = "", coreLink(name)
		list = append(list, d)
	}
	if direction != towards {
		d.In, d.Out = coreLink(name), ""
		list = append(list, d)
	}
	return list
}

func kill(_ context.Context, n *network, target string) error { return n.daemons[target].Kill() }

func startAgain(ctx context.Context, n *network, target string) error { return n.start(ctx, target) }

func freeze(_ context.Context, n *network, target string) error {
	return unix.Kill(n.daemons[target].PID(), unix.SIGSTOP)
}

func thaw(_ context.Context, n *network, target string) error {
	return unix.Kill(n.daemons[target].PID(), unix.SIGCONT)
}

func linkDown(_ context.Context, n *network, target string) error {
	return n.at[coreName].SetUp(coreLink(target), false)
}

func linkUp(_ context.Context, n *network, target string) error {
	return n.at[coreName].SetUp(coreLink(target), true)
}

func shrink(_ context.Context, n *network, target string) error {
	return n.setMTU(target, smallerMTU)
}

func widen(_ context.Context, n *network, target string) error { return n.setMTU(target, mtu) }

// setMTU changes both ends of a router's link to the core, as a path does that goes another way.
func (n *network) setMTU(router string, octets int) error {
	return errors.Join(n.at[coreName].SetMTU(coreLink(router), octets), n.at[router].SetMTU("core0", octets))
}

// fillStore leaves the Map-Server's journal no room.
func fillStore(_ context.Context, n *network, _ string) error {
	file, err := os.Create(n.storePath(filler))
	if err != nil {
		return err
	}
	defer file.Close()
	for {
		if _, err := file.Write(make([]byte, 1<<12)); errors.Is(err, unix.ENOSPC) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func emptyStore(_ context.Context, n *network, _ string) error { return os.Remove(n.storePath(filler)) }

func (n *network) storePath(name string) string {
	return filepath.Join("/proc/self/fd", strconv.Itoa(n.store), name)
}

func dropControl(_ context.Context, n *network, target string) error {
	return n.at[coreName].DropForwarded("control", drops(target, testnet.Drop{Port: controlPort})...)
}

func passControl(_ context.Context, n *network, _ string) error {
	return n.at[coreName].PassForwarded("control")
}

// controlPort is that of Map-Requests and all else of the mapping system.
const controlPort = 4342

// Done is a fault that was.
type Done struct {
	Kind, Target string
	From, To     time.Duration // since the beginning of the run
}

func (d Done) name() string { return d.Kind + " " + d.Target }
