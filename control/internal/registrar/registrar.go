// SPDX-License-Identifier: Apache-2.0

package registrar

// The Map-Servers that an ETR registers with (RFC 9301 s.8.2), and those that it leaves. Nothing here sends.

import (
	"slices"

	"loci/control/internal/mapregister"
	"loci/control/internal/system"
	"loci/control/internal/table"
	"loci/lisp"
)

// Registrar registers mappings with all Map-Servers.
type Registrar struct {
	h       *system.System
	Peers   []*mapregister.Peer
	Leaving []*mapregister.Peer // configured no more; they are told so
	Work    []*registering      // Map-Servers whose registration is being brought into line
	Sender  *mapregister.Sender // of the Map-Registers for all of them
}

// New makes a registrar without Map-Servers.
func New(h *system.System) *Registrar { return &Registrar{h: h, Sender: mapregister.NewSender(h)} }

// Under is what is to be withdrawn from a Map-Server and was taken back to be sent anew.
func (r *Registrar) Under(p *mapregister.Peer) *table.Chunked[lisp.Prefix] {
	for _, w := range r.Work {
		if w.peer == p {
			return &w.Under
		}
	}
	return &table.Chunked[lisp.Prefix]{}
}

// Numbered is a Map-Server by its number: those that leave are behind the others.
func (r *Registrar) Numbered(i int) *mapregister.Peer {
	if i < len(r.Peers) {
		return r.Peers[i]
	}
	return r.Leaving[i-len(r.Peers)]
}

// forget ends what is known of a Map-Server that leaves when nothing is left to be withdrawn.
func (r *Registrar) forget(p *mapregister.Peer) {
	if p.Leaves && len(p.Messages) == 0 && !slices.ContainsFunc(r.Work, func(w *registering) bool { return w.peer == p }) {
		r.Leaving = slices.DeleteFunc(r.Leaving, func(l *mapregister.Peer) bool { return l == p })
	}
}
