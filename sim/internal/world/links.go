// SPDX-License-Identifier: Apache-2.0

package world

// Which of its links a router uses: control.HoldDown chooses between those that are up. A
// router with a link that is up says of at least one RLOC that it is reachable.

import (
	"time"

	"loci/control"
	"loci/lisp"
	"loci/sim/internal/sites"
	"loci/sim/internal/virtual"
)

// uplinks is which links of a router are used, and were up when its Node was configured.
type uplinks struct {
	hold  control.HoldDown
	until time.Time // when one need not be held down any more
}

// judgeLinks says which of the links that are up are used, now and when one of them need not be held down any more.
func (r *Router) judgeLinks() {
	var paths []control.OwnPath
	for i := range r.Station.Links {
		paths = append(paths, control.OwnPath{RLOC: lisp.RLOCFromAddr(r.Station.Links[i].Addr), Usable: r.Station.Links[i].Noticed == 0})
	}
	now := virtual.Epoch.Add(r.W.Now)
	_, again := r.uplinks.hold.Judge(now, paths, sites.Choices(r.Router))
	for i := range r.Station.Links {
		up, _ := r.uplinks.hold.IsUp(paths[i].RLOC)
		r.Station.Links[i].Held = paths[i].Usable && !up
	}
	if again.IsZero() || again.Equal(r.uplinks.until) {
		return
	}
	r.uplinks.until = again
	r.W.After(again.Sub(now), func() {
		r.uplinks.until = time.Time{}
		r.W.Configure(r.Site)
	})
}
