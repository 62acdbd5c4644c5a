// SPDX-License-Identifier: Apache-2.0

package daemon

// What on this host is in the way of the configuration: reverse path filters and stale routes.

import (
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"loci/daemon/hostnet"
	"loci/daemon/plan"
	"loci/daemon/trouble"
)

// hostTrouble is told once, and when it is over.
type hostTrouble struct {
	log      *slog.Logger
	told     atomic.Pointer[[]trouble.Trouble]
	filtered uint64 // packets that reverse path filters had dropped at the last look

	mu   sync.Mutex
	seen map[string]time.Time // since when each warning stands, by its text
}

// since fills in since when each warning stands, and forgets those that are over. These are all that there are now.
func (t *hostTrouble) since(now time.Time, list []trouble.Trouble) []trouble.Trouble {
	t.mu.Lock()
	defer t.mu.Unlock()
	stands := map[string]time.Time{}
	for i := range list {
		text := list[i].String()
		at, known := t.seen[text]
		if !known {
			at = now
		}
		stands[text], list[i].Since = at, at
	}
	t.seen = stands
	return list
}

// look finds out what is wrong now.
func (t *hostTrouble) look(p plan.Plan) {
	filters := hostnet.FilterCheck{View: p.Host.View, Own: p.OwnPaths(), Servers: p.Servers(), Link: p.Config.Datapath.Interface, Leaving: p.LeavingEIDs()}
	list := append(filters.Trouble(), p.Host.StaleGateways(plan.CoreNames(p))...)
	now := hostnet.FilteredPackets()
	if now > t.filtered && t.told.Load() != nil {
		list = append(list, trouble.Trouble{
			Kind: trouble.ReversePathFilter, What: "the kernel's reverse path filter dropped packets just now",
			Remedy: "see net.ipv4.conf.*.rp_filter, and IPReversePathFilter in /proc/net/netstat",
		})
	}
	t.filtered = now
	told := t.told.Swap(&list)
	for _, w := range list {
		if told == nil || !slices.Contains(*told, w) {
			t.log.Warn(w.String())
		}
	}
	if told == nil {
		return
	}
	for _, w := range *told {
		if !slices.Contains(list, w) {
			t.log.Info("over: " + w.String())
		}
	}
}

// warnings are what was found at the last look.
func (t *hostTrouble) warnings() []trouble.Trouble {
	if told := t.told.Load(); told != nil {
		return slices.Clone(*told)
	}
	return nil
}
