// SPDX-License-Identifier: Apache-2.0

package user

// The TUN while the engine runs: it is made anew when somebody deletes it, and its MTU is that of the largest interface by
// which packets for it come in, so that the engine alone says what is too big for a path (RFC 9300 s.7.2).

import (
	"errors"
	"net"
	"slices"
	"time"

	"github.com/vishvananda/netlink"

	"loci/dataplane"
	"loci/dataplane/user/tun"
)

const (
	// lookPause is how often the TUN and the MTUs of interfaces are looked at in any case.
	lookPause = time.Second
	// linkUpdates is how many messages about interfaces wait to be read.
	linkUpdates = 64
	// maxMTU is what the kernel gives a TUN at most.
	maxMTU = 65535
)

// tend looks after the TUN until the engine ends, whenever an interface changes.
func (e *Engine) tend() {
	ticks := time.NewTicker(lookPause)
	defer ticks.Stop()
	for {
		done := make(chan struct{})
		updates := e.linkUpdates(done)
		ended := e.tendBy(ticks.C, updates)
		close(done)
		for range updates { // the sender may still wait for a reader
		}
		if ended {
			return
		}
	}
}

// linkUpdates are the kernel's messages about interfaces until done is closed; closed before where there are none, or some were lost.
func (e *Engine) linkUpdates(done chan struct{}) <-chan netlink.LinkUpdate {
	updates := make(chan netlink.LinkUpdate, linkUpdates)
	if err := e.space.Do(func() error { return netlink.LinkSubscribe(updates, done) }); err != nil {
		e.log.Debug("the kernel does not tell of changed interfaces", "error", err)
		close(updates)
	}
	return updates
}

// tendBy reports whether the engine ends; otherwise the updates have.
func (e *Engine) tendBy(ticks <-chan time.Time, updates <-chan netlink.LinkUpdate) (ended bool) {
	for subscribed := true; ; {
		select {
		case <-ticks:
			e.mend(nil)
			if !subscribed {
				return false
			}
		case _, subscribed = <-updates:
			if !subscribed {
				updates = nil // until the next tick
				continue
			}
			e.mend(nil)
		case <-e.stop:
			return true
		}
	}
}

// mend makes the TUN again what it has to be. The reader of a queue notices at once that it was deleted, by an error.
func (e *Engine) mend(reason error) {
	e.changing.Lock()
	defer e.changing.Unlock()
	if e.closed {
		return
	}
	amiss, err := e.tun.Keep()
	switch {
	case err != nil && !e.lost:
		e.log.Error("the LISP interface is gone: nothing is forwarded until it is made anew", "interface", e.tun.Name, "error", reason, "attempt", err)
	case err == nil && e.lost:
		e.log.Info("the LISP interface was made anew")
	case err == nil && amiss:
		e.log.Warn("the LISP interface was deleted, renamed, moved or set down: it is as it was again")
	}
	e.lost = err != nil
	if err != nil {
		return
	}
	e.setMTU()
	if amiss {
		e.paths.setTUN(e.tun.Index())
		e.renewals.Add(1)
		go e.remade() // which may wait for those that end the engine
	}
}

// setMTU gives the TUN the MTU that it has to have. The caller holds changing.
func (e *Engine) setMTU() {
	err := e.tun.SetMTU(e.wantedMTU())
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return // it gets its MTU when it is made anew
	}
	if err != nil && e.mtuTrouble != err.Error() {
		e.log.Warn("the LISP interface keeps its MTU: larger packets are refused to those who send them", "error", err)
		e.mtuTrouble = err.Error()
	}
}

func (e *Engine) wantedMTU() int {
	mtu := tun.UsualMTU
	for _, name := range e.arriving {
		if link, err := e.space.Netlink.LinkByName(name); err == nil && link.Attrs().Flags&net.FlagLoopback == 0 {
			mtu = max(mtu, link.Attrs().MTU)
		}
	}
	return min(mtu, maxMTU)
}

// arrivingBy are the interfaces by which packets for the TUN come in: those of the site, and for a PITR those of the core.
func arrivingBy(s *dataplane.Settings) (names []string) {
	isPITR := slices.ContainsFunc(s.Roles, func(p dataplane.RolePolicy) bool { return p.Role == dataplane.RolePITR })
	for _, i := range s.Interfaces {
		if i.Side == dataplane.SideSite || isPITR {
			names = append(names, i.Name)
		}
	}
	return names
}
