// SPDX-License-Identifier: Apache-2.0

//go:build !nolispnat

package lispnat

// The rules of the table, in the order of a packet's way through them.

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"

	"loci/config/translation"
	"loci/forward"
)

// The priorities of chains. Those for packets before connection tracking are after fragments are put together (-400)
// and before the host's own rules for that (-300): a fragment that is not tracked is not put together. Unsolicited
// packets are recognised when tracked connections have been translated back (-100). Translation is just before the
// host's own.
const (
	untrackedPriority   = -350
	unsolicitedPriority = -90
	translatePriority   = 99
)

// The chains.
var (
	arriving    = chain{"arriving", nftables.ChainTypeFilter, nftables.ChainHookPrerouting, untrackedPriority}
	leaving     = chain{"leaving", nftables.ChainTypeFilter, nftables.ChainHookOutput, untrackedPriority}
	unsolicited = chain{"unsolicited", nftables.ChainTypeFilter, nftables.ChainHookPrerouting, unsolicitedPriority}
	translate   = chain{"translate", nftables.ChainTypeNAT, nftables.ChainHookPostrouting, translatePriority}
	private     = chain{name: "private"}
	eids        = chain{name: "eids"}
)

// Included reports whether this build has LISP-NAT.
const Included = true

var chains = []chain{arriving, leaving, unsolicited, private, eids, translate}

type chain struct {
	name     string
	kind     nftables.ChainType
	hook     *nftables.ChainHook
	priority nftables.ChainPriority
}

// in is the chain in a table.
func (c chain) in(table *nftables.Table) *nftables.Chain {
	made := &nftables.Chain{Table: table, Name: c.name}
	if c.hook != nil {
		made.Type, made.Hooknum, made.Priority = c.kind, c.hook, nftables.ChainPriorityRef(c.priority)
	}
	return made
}

// is reports whether a chain of the kernel is this one. It accepts what no rule decides about.
func (c chain) is(found *nftables.Chain) bool {
	if found.Name != c.name || c.hook == nil || found.Hooknum == nil || found.Priority == nil {
		return found.Name == c.name && c.hook == nil && found.Hooknum == nil
	}
	accepts := found.Policy != nil && *found.Policy == nftables.ChainPolicyAccept
	return found.Type == c.kind && *found.Hooknum == *c.hook && *found.Priority == c.priority && accepts
}

// rule is one of a chain. entry is the number of the entry that it counts for, -1 for none.
type rule struct {
	chain string
	entry int
	match []expr.Any
}

// rules are those of a table.
func (s *Spec) rules() (list []rule) {
	add := func(c chain, entry int, parts ...[]expr.Any) {
		r := rule{chain: c.name, entry: entry}
		for _, part := range parts {
			r.match = append(r.match, part...)
		}
		list = append(list, r)
	}
	for i, e := range s.Entries {
		translated := private
		if e.EIDs {
			translated = eids
			add(arriving, -1, s.leavesLISP(), from(e), setZone())
			add(arriving, -1, toPool(e), notLocal(), setZone())
		} else {
			// Translated already, before it went through LISP.
			add(arriving, -1, inBy(s.LISP), fromPool(e), untracked())
			s.addOwn(add, e)
		}
		add(unsolicited, i, toPool(e), notLocal(), counted(), verdict(expr.VerdictDrop, ""))
		add(translated, i, from(e), counted(), toSource(e))
	}
	if s.Marked {
		add(arriving, -1, clearMark())
	}
	for _, site := range append([]string{"lo"}, s.Sites...) {
		add(translate, -1, outBy(site), verdict(expr.VerdictReturn, ""))
	}
	add(translate, -1, inZone(), verdict(expr.VerdictGoto, eids.name))
	for _, site := range s.Sites {
		add(translate, -1, inBy(site), verdict(expr.VerdictGoto, private.name))
	}
	return list
}

// addOwn keeps connection tracking from the router's own LISP packets where their address is in a pool: it would give
// them another port when a source of the site has theirs.
func (s *Spec) addOwn(add func(chain, int, ...[]expr.Any), e Entry) {
	for _, port := range []uint16{forward.DataPort, s.ControlPort} {
		add(arriving, -1, toPool(e), local(), udpPort(destinationPort, port), untracked())
		add(leaving, -1, fromPool(e), udpPort(destinationPort, port), untracked())
		add(leaving, -1, fromPool(e), udpPort(sourcePort, port), untracked())
	}
}

// leavesLISP matches packets to hosts outside LISP.
func (s *Spec) leavesLISP() []expr.Any {
	if s.Marked {
		return append(masked(mark, 0), &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: native(mark)})
	}
	return inBy(s.LISP)
}

func native(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }

// masked loads some bits of the mark, changed by others.
func masked(mask, xor uint32) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: native(mask), Xor: native(xor)},
	}
}

func clearMark() []expr.Any {
	return append(masked(^uint32(mark), 0), &expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: 1})
}

func setZone() []expr.Any {
	return []expr.Any{
		&expr.Immediate{Register: 1, Data: binary.NativeEndian.AppendUint16(nil, zone)},
		&expr.Ct{Key: expr.CtKeyZONE, Register: 1, SourceRegister: true},
	}
}

func inZone() []expr.Any {
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeyZONE, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.NativeEndian.AppendUint16(nil, zone)},
	}
}

func untracked() []expr.Any { return []expr.Any{&expr.Notrack{}} }

func counted() []expr.Any { return []expr.Any{&expr.Counter{}} }

func verdict(kind expr.VerdictKind, to string) []expr.Any {
	return []expr.Any{&expr.Verdict{Kind: kind, Chain: to}}
}

func inBy(name string) []expr.Any { return byInterface(expr.MetaKeyIIFNAME, name) }

func outBy(name string) []expr.Any { return byInterface(expr.MetaKeyOIFNAME, name) }

func byInterface(key expr.MetaKey, name string) []expr.Any {
	padded := make([]byte, unix.IFNAMSIZ)
	copy(padded, name)
	return []expr.Any{&expr.Meta{Key: key, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: padded}}
}

// Offsets of addresses in the IP headers, and of ports in UDP's.
const (
	source4, destination4       = 12, 16
	source6, destination6       = 8, 24
	sourcePort, destinationPort = uint32(0), uint32(2)
)

// address loads the source or destination of a packet of the entry's family.
func address(e Entry, source bool) []expr.Any {
	family, offset := byte(unix.NFPROTO_IPV4), uint32(destination4)
	switch {
	case e.From.Addr().Is4() && source:
		offset = source4
	case e.From.Addr().Is6() && source:
		offset = source6
	case e.From.Addr().Is6():
		offset = destination6
	}
	if e.From.Addr().Is6() {
		family = unix.NFPROTO_IPV6
	}
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{family}},
		&expr.Payload{
			DestRegister: 1, Base: expr.PayloadBaseNetworkHeader,
			Offset: offset, Len: uint32(e.From.Addr().BitLen() / 8),
		},
	}
}

func within(load []expr.Any, p translation.Pool) []expr.Any {
	first, last := p.First.AsSlice(), p.Last.AsSlice()
	return append(load, &expr.Range{Op: expr.CmpOpEq, Register: 1, FromData: first, ToData: last})
}

func from(e Entry) []expr.Any { return within(address(e, true), translation.PoolOf(e.From)) }

func fromPool(e Entry) []expr.Any { return within(address(e, true), e.Pool) }

func toPool(e Entry) []expr.Any { return within(address(e, false), e.Pool) }

func notLocal() []expr.Any { return byKind(expr.CmpOpNeq) }

func local() []expr.Any { return byKind(expr.CmpOpEq) }

// byKind compares the kind of the route to the destination with that to an own address.
func byKind(op expr.CmpOp) []expr.Any {
	return []expr.Any{
		&expr.Fib{Register: 1, ResultADDRTYPE: true, FlagDADDR: true},
		&expr.Cmp{Op: op, Register: 1, Data: native(unix.RTN_LOCAL)},
	}
}

func udpPort(offset uint32, port uint16) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_UDP}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.BigEndian.AppendUint16(nil, port)},
	}
}

// toSource gives the packet a source of the pool: the same host of another network, or an address that a source keeps.
func toSource(e Entry) []expr.Any {
	family := uint32(unix.NFPROTO_IPV4)
	if e.From.Addr().Is6() {
		family = unix.NFPROTO_IPV6
	}
	exact := e.Translate == translation.Address
	return []expr.Any{
		&expr.Immediate{Register: 1, Data: e.Pool.First.AsSlice()},
		&expr.Immediate{Register: 2, Data: e.Pool.Last.AsSlice()},
		&expr.NAT{
			Type: expr.NATTypeSourceNAT, Family: family, RegAddrMin: 1, RegAddrMax: 2,
			Prefix: exact, Persistent: !exact,
		},
	}
}

// comments are those of the rules of each chain, as the kernel keeps them: by them a table is recognised, and what it
// was made from.
func (s *Spec) comments() map[string][]string {
	sum := sha256.Sum256(fmt.Appendf(nil, "1 %v %v %v %v %v", s.Entries, s.Sites, s.LISP, s.Marked, s.ControlPort))
	list := map[string][]string{}
	for i, r := range s.rules() {
		comment := userdata.AppendString(nil, userdata.TypeComment, fmt.Sprintf("loci %x %d", sum[:6], i))
		list[r.chain] = append(list[r.chain], string(comment))
	}
	return list
}
