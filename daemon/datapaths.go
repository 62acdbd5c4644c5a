// SPDX-License-Identifier: Apache-2.0

package daemon

// What package datapath asks of a daemon: its mappings, own EIDs, and where news go.

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"loci/control"
	"loci/daemon/api"
	"loci/daemon/datapath"
	"loci/daemon/eventloop"
	"loci/daemon/events"
	"loci/daemon/plan"
	"loci/daemon/planeworker"
	"loci/daemon/remoteplane"
	"loci/dataplane"
	"loci/lisp"
)

// pathHost implements datapath.Host.
type pathHost struct {
	loop          *eventloop.Loop
	plane, engine dataplane.Plane // as the daemon has them
	inForce       func() *plan.Plan
	events        *events.Hub
	log           *slog.Logger
}

// checkUsed checks the data paths of what the data plane reports as used.
func checkUsed(h pathHost, worker *planeworker.Worker) *datapath.Checker {
	paths := datapath.New(h, h.log)
	worker.Used = func(e *dataplane.MapCacheEntry) { paths.Use(&e.Mapping, e.Usage.Packets, e.Usage.LastUsedAt) }
	return paths
}

// DataPaths implements datapath.Host.
func (h pathHost) DataPaths(ctx context.Context, questions []datapath.Question) ([]datapath.Facts, error) {
	facts, err := eventloop.Ask(ctx, h.loop, func(node *control.Node, _ time.Time) (list []datapath.Facts) {
		for _, q := range questions {
			list = append(list, datapath.FactsOf(q, func(to netip.Addr) control.Explanation {
				return node.Explain(q.Prefix.Instance(), lisp.EIDFromAddr(to))
			}))
		}
		return list
	})
	for i := range facts {
		facts[i].Octets = h.carried(facts[i].NextHops)
	}
	return facts, err
}

// carried is the largest packet that the paths to these hops are said to carry, and that this host can send; 0 where that is not known.
func (h pathHost) carried(nextHops []lisp.RLOC) (octets int) {
	link, err := net.InterfaceByName(h.inForce().Config.Datapath.Interface)
	if err != nil {
		return 0
	}
	octets = link.MTU
	for _, next := range nextHops {
		mtu := h.pathMTU(next)
		if mtu == 0 {
			return 0
		}
		octets = min(octets, mtu-datapath.OverheadOctets(next.Addr()))
	}
	return octets
}

func (h pathHost) pathMTU(next lisp.RLOC) int {
	switch engine := h.engine.(type) {
	case *remoteplane.Plane:
		for _, known := range engine.PathStates([]lisp.RLOC{next}) {
			return known.MTU
		}
	case dataplane.PathReporter:
		mtu, _ := engine.PathMTU(next)
		return mtu
	}
	return 0
}

// OwnEIDs implements datapath.Host.
func (h pathHost) OwnEIDs() (v4, v6 netip.Addr) {
	var own []netip.Prefix
	for e := range h.plane.Database() {
		if e.Prefix.Instance() == 0 && e.Prefix.EID().IsIP() {
			own = append(own, e.Prefix.Netip())
		}
	}
	for _, link := range h.inForce().Host.Links {
		for _, a := range link.Addresses {
			isEID := slices.ContainsFunc(own, func(p netip.Prefix) bool { return p.Contains(a) })
			switch {
			case !isEID:
			case a.Is4() && !v4.IsValid():
				v4 = a
			case a.Is6() && !v6.IsValid():
				v6 = a
			}
		}
	}
	return v4, v6
}

// DataPathChanged implements datapath.Host.
func (h pathHost) DataPathChanged(now time.Time, s datapath.State) {
	kind, level := "data-path-passes", slog.LevelInfo
	switch s.Outcome {
	case datapath.Lost:
		kind, level = "data-path-lost", slog.LevelWarn
	case datapath.LargeLost:
		kind, level = "path-mtu-black-hole", slog.LevelWarn
	}
	event := api.Event{At: now, Kind: kind, EIDPrefix: &s.EIDPrefix, RLOC: s.Peer(), Fields: map[string]string{"octets": strconv.Itoa(s.Octets)}}
	h.events.Publish(event)
	h.log.Log(context.Background(), level, kind, "eid_prefix", s.EIDPrefix, "rloc", s.Peer(), "octets", s.Octets)
}
