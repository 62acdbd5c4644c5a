// SPDX-License-Identifier: Apache-2.0

package daemon

// What the control socket tells about this host: interfaces, own RLOCs, what is waited
// for, and what of the host's settings is in the way.

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"loci/control"
	"loci/daemon/api"
	"loci/lisp"
)

// ownRLOC is an own RLOC as a plan found it.
type ownRLOC struct {
	rloc lisp.RLOC
	link string
	rlocState
}

// interfaces answers `loci show interfaces`.
func (d *daemon) interfaces(context.Context) (api.Interfaces, error) {
	p := d.plan.Load()
	answer := api.Interfaces{Interfaces: []api.InterfaceState{}, RLOCs: []api.OwnRLOC{}, Waiting: p.waiting()}
	for _, i := range d.describeInterfaces(p.interfaces) {
		link, present := p.host.link(i.Name)
		answer.Interfaces = append(answer.Interfaces, api.InterfaceState{
			Interface: i,
			Present:   present, Up: link.up, Addresses: link.addresses, Gateways: link.gateways,
		})
	}
	for _, own := range p.own {
		state := "down"
		if own.up {
			state = "up"
		}
		answer.RLOCs = append(answer.RLOCs, api.OwnRLOC{
			RLOC: own.rloc, Interface: own.link, State: state, Reason: string(own.reason), ChangedAt: own.changedAt,
		})
	}
	return answer, nil
}

// waiting is what the host does not have yet, in words.
func (p plan) waiting() []string {
	words := []string{}
	for _, w := range p.waits {
		words = append(words, w.problem.Error())
	}
	return words
}

// ownRLOCs describes the RLOCs of a plan by what is remembered of them.
func (m *hostMemory) ownRLOCs(p plan, view hostView) []ownRLOC {
	var list []ownRLOC
	for _, rloc := range p.rlocs {
		if state, known := m.states.of(rloc); known {
			list = append(list, ownRLOC{lisp.RLOCFromAddr(rloc), view.interfaceOf(rloc), state})
		}
	}
	return list
}

// detour notes who gets the site's packets; who follows the host puts it in force.
func (d *daemon) detour(to netip.Addr) {
	if to.IsValid() {
		d.detourBy.Store(&to)
	} else {
		d.detourBy.Store(nil)
	}
	wake(d.replan)
}

// siblings answers `loci show siblings`.
func (d *daemon) siblings(ctx context.Context) (api.Siblings, error) {
	type known struct {
		list []control.SiblingStatus
		hand control.DetourStatus
	}
	k, err := ask(ctx, d.loop, func(time.Time) known {
		return known{slices.Collect(d.loop.node.Siblings()), d.loop.node.Detour()}
	})
	answer := api.Siblings{Siblings: []api.Sibling{}, Reason: string(k.hand.Why), Since: timeOrNil(k.hand.Since)}
	if k.hand.To.IsValid() {
		answer.DetourBy = k.hand.To.String()
	}
	for _, s := range k.list {
		document := api.Sibling{Address: s.Address, Answers: s.Answers, HeardAt: timeOrNil(s.HeardAt), Locators: []api.SiblingLocator{}}
		for _, l := range s.Locators {
			document.Locators = append(document.Locators, api.SiblingLocator{RLOC: l.RLOC, Reachable: l.Reachable})
		}
		answer.Siblings = append(answer.Siblings, document)
	}
	return answer, err
}

// hostWarnings are those that may change with the host.
func (d *daemon) hostWarnings() []string {
	var warnings []string
	if stored := d.trouble.Load(); stored != nil {
		warnings = slices.Clone(*stored)
	}
	if d.routed != nil {
		warnings = append(warnings, d.routed.warnings()...)
	}
	if d.pinWarning != "" {
		warnings = append(warnings, d.pinWarning)
	}
	return warnings
}

// lookForTrouble finds out what reverse path filters and stale routes do, and tells what is new and what is over.
func (d *daemon) lookForTrouble(p plan) {
	trouble := append(filterTrouble(p), p.host.staleGateways(coreNames(p))...)
	if now := filteredPackets(); now > d.filtered.Swap(now) && d.trouble.Load() != nil {
		trouble = append(trouble, "the kernel's reverse path filter dropped packets just now: see net.ipv4.conf.*.rp_filter, and IPReversePathFilter in /proc/net/netstat")
	}
	told := d.trouble.Swap(&trouble)
	for _, w := range trouble {
		if told == nil || !slices.Contains(*told, w) {
			d.log.Warn(w)
		}
	}
	if told == nil {
		return
	}
	for _, w := range *told {
		if !slices.Contains(trouble, w) {
			d.log.Info("over: " + w)
		}
	}
}
