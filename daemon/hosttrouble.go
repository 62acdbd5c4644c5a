// SPDX-License-Identifier: Apache-2.0

package daemon

// What on this host is in the way of the configuration: reverse path filters and stale routes.

import (
	"log/slog"
	"slices"
	"sync/atomic"

	"loci/daemon/hostnet"
	"loci/daemon/plan"
)

// hostTrouble is told once, and when it is over.
type hostTrouble struct {
	log      *slog.Logger
	told     atomic.Pointer[[]string]
	filtered uint64 // packets that reverse path filters had dropped at the last look
}

// look finds out what is wrong now.
func (t *hostTrouble) look(p plan.Plan) {
	filters := hostnet.FilterCheck{View: p.Host.View, Own: p.OwnPaths(), Servers: p.Servers(), Link: p.Config.Datapath.Interface, Leaving: p.LeavingEIDs()}
	trouble := append(filters.Trouble(), p.Host.StaleGateways(plan.CoreNames(p))...)
	now := hostnet.FilteredPackets()
	if now > t.filtered && t.told.Load() != nil {
		trouble = append(trouble, "the kernel's reverse path filter dropped packets just now: see net.ipv4.conf.*.rp_filter, and IPReversePathFilter in /proc/net/netstat")
	}
	t.filtered = now
	told := t.told.Swap(&trouble)
	for _, w := range trouble {
		if told == nil || !slices.Contains(*told, w) {
			t.log.Warn(w)
		}
	}
	if told == nil {
		return
	}
	for _, w := range *told {
		if !slices.Contains(trouble, w) {
			t.log.Info("over: " + w)
		}
	}
}

// warnings are what was found at the last look.
func (t *hostTrouble) warnings() []string {
	if told := t.told.Load(); told != nil {
		return slices.Clone(*told)
	}
	return nil
}
