// SPDX-License-Identifier: Apache-2.0

package mapregister

// How mappings are packed into Map-Registers (RFC 9301 s.5.6). Nothing here sends.

import (
	"loci/control/internal/system"
	"loci/lisp"
	"loci/wire"
)

// Packing groups mappings so that each Map-Register stays within the size of control
// messages; a mapping that is too large for that goes alone.
type Packing struct {
	room, used int
	each       int // what is added to each record
	open       []lisp.Mapping
}

// Packing is an empty packing of the size that a Map-Register to the peer may have.
func (p *Peer) Packing() Packing {
	const headOctets, xtrIDOctets = 16, 24
	k := Packing{room: system.ControlOctets(p.Config.Address.Addr()) - headOctets - xtrIDOctets - p.Config.Key.MACOctets()}
	if len(p.Config.ByRTRs) > 0 {
		k.room -= ecmOctets
	}
	k.each = len(p.Config.RTRs) * rtrLocatorOctets
	for i := range p.Config.Named {
		named := &p.Config.Named[i]
		k.each += (len(named.RTRs)+1)*rtrLocatorOctets + len(named.Name)
	}
	return k
}

// WithdrawalOf is the record that withdraws an EID-Prefix.
func WithdrawalOf(p lisp.Prefix) lisp.Mapping { return lisp.Mapping{Prefix: p, Authoritative: true} }

// Put takes a mapping; full is what was packed before where that has no room for it.
func (k *Packing) Put(m lisp.Mapping) (full []lisp.Mapping) {
	octets := system.RecordOctets(m) + k.each
	if len(k.open) > 0 && (k.used+octets > k.room || len(k.open) == wire.MaxRecords) {
		full = k.Take()
	}
	k.open = append(k.open, m)
	k.used += octets
	return full
}

// Take empties it.
func (k *Packing) Take() []lisp.Mapping {
	full := k.open
	k.open, k.used = nil, 0
	return full
}

// Len is how many mappings are in it.
func (k *Packing) Len() int { return len(k.open) }
