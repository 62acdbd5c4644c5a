// SPDX-License-Identifier: Apache-2.0

package maprequest

// Map-Requests for the path of one flow (RFC 8060 s.5.1). Who wants it repeats them. Whether one is answered says
// nothing of the Map-Resolver: the ETR may not know their kind.

import (
	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/lisp"
	"loci/wire"
)

// SendFlow sends the Map-Request for the path of a flow after so many that were not answered, each to the next
// Map-Resolver. It sets bit A (RFC 9301 s.5.2): the ETR is to answer, not the mapping system. It returns its nonce, and
// how many Map-Resolvers there are: none where there is no one to ask.
func (r *Requester) SendFlow(f *lisp.Flow, unanswered int) (nonce uint64, resolvers int) {
	if r.Resolvers.Size() == 0 || len(r.h.RLOCs) == 0 {
		r.h.Count(counter.RefusedNoMapResolver)
		return 0, 0
	}
	if r.Resolvers.OneByOne() {
		return 0, 0 // all of them are silent
	}
	resolver := r.Resolvers.After(unanswered)
	m := wire.MapRequest{Authoritative: true, LocalXTR: true, Nonce: r.h.Nonce()}
	m.AskFlow(*f, r.h.RLOCs[:min(len(r.h.RLOCs), wire.MaxITRRLOCs)])
	if !r.transmit(&m, f.Destination, resolver) {
		return 0, 0
	}
	r.h.Count(counter.MapRequestSent)
	if r.h.MayNotice() {
		r.h.Say(effect.Notice{
			Kind: effect.NoticeMapRequestSent, Prefix: lisp.HostPrefix(f.Instance, f.Destination),
			Remote: resolver,
			Detail: "for the path of " + f.String(),
		})
	}
	return m.Nonce, r.Resolvers.Size()
}
