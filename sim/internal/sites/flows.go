// SPDX-License-Identifier: Apache-2.0

package sites

// Who talks to whom.

import (
	"net/netip"
	"slices"
	"time"

	"loci/control"
	"loci/lisp"
	"loci/sim/internal/virtual"
)

// Flow is a host that talks to another one.
type Flow struct {
	From        *Router // the tunnel router, or PITR, that the host's packets take
	Source, To  netip.Addr
	Destination *Site
	Interval    time.Duration
	Outside     bool // it goes to a host outside LISP
}

// NewFlow goes from a host behind a tunnel router to a host of the same Instance-ID and
// family; nil when there is none.
func (p *Plan) NewFlow(x *Router) *Flow {
	for range 20 {
		from := virtual.Pick(p.Random, x.Site.Prefixes)
		to := virtual.Pick(p.Random, virtual.Pick(p.Random, p.Sites).Prefixes)
		if mayTalk(from, to) {
			return &Flow{
				From: x, Source: virtual.Pick(p.Random, from.Hosts), To: virtual.Pick(p.Random, to.Hosts), Destination: to.Site,
			}
		}
	}
	return nil
}

// FlowTo goes to a host of an EID-Prefix from that of another site; nil where there is none.
func (p *Plan) FlowTo(to *SitePrefix) *Flow {
	for range 50 {
		x := virtual.Pick(p.Kinds, p.XTRs)
		if from := virtual.Pick(p.Kinds, x.Site.Prefixes); mayTalk(from, to) {
			return &Flow{From: x, Source: from.Hosts[0], To: to.Hosts[0], Destination: to.Site}
		}
	}
	return nil
}

// mayTalk reports whether hosts of two EID-Prefixes talk to each other by LISP.
func mayTalk(from, to *SitePrefix) bool {
	sameSpace := from.Prefix.Instance() == to.Prefix.Instance() && from.Prefix.Kind() == to.Prefix.Kind()
	return sameSpace && from.Site != to.Site && len(from.Hosts) > 0 && len(to.Hosts) > 0 && !from.Site.Contains(to.Prefix)
}

// Back is the flow the other way, by the first tunnel router of the site.
func (f *Flow) Back() *Flow {
	return &Flow{From: f.Destination.XTRs[0], Source: f.To, To: f.Source, Destination: f.From.Site}
}

// String is a flow in words.
func (f *Flow) String() string { return f.Source.String() + " to " + f.To.String() }

// Instance is that of the flow's EIDs.
func (f *Flow) Instance() lisp.InstanceID {
	if f.From.Site != nil {
		return f.From.Site.Instance
	}
	return f.Destination.Instance
}

// IsNative reports whether the flow leaves its site without LISP. That a mapping has it do so is asked anew when its
// TTL has ended, and its packets wait for that.
func (f *Flow) IsNative() bool {
	return f.Outside && len(f.From.Site.Via.Behind)+len(f.From.Site.Via.Exits) == 0
}

// Leaves reports whether packets of a site reach hosts outside: those that it sends to RTRs do by PETRs among them
// alone.
func (s *Site) Leaves() bool {
	return !slices.ContainsFunc(s.Via.Behind, func(r *Router) bool { return !r.Relay.Is(control.RolePETR) })
}
