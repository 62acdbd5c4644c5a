// SPDX-License-Identifier: Apache-2.0

package user

// The caches of flows. An entry is what the model found out about the first packet of a flow. Each goroutine has
// caches of its own.

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"net/netip"
	"time"

	"loci/dataplane/model"
	"loci/dataplane/model/packets"
	"loci/dataplane/user/underlay"
	"loci/forward"
	"loci/wire"
)

const (
	// maxFlows bounds a cache, which is emptied when it is full.
	maxFlows = 1 << 15
	// flowAge is how long an entry counts: routes change without an operation.
	flowAge = time.Second
)

// flowKey is a flow of the site.
type flowKey struct {
	source, destination [16]byte
	ports               uint32
	protocol, family    uint8
}

// flow is what packets of the site get.
type flow struct {
	outer        underlay.Outer // but for TTL and class
	header       [wire.DataHeaderOctets]byte
	nonce        bool // the header has one, which differs from packet to packet
	largestInner int
	natively     bool // they are not LISP's: outer and header are of no use
	until        time.Time
	use          packets.Use
}

// entryKey is a flow from the core: outer source and destination, the header without nonce, inner addresses.
type entryKey struct {
	from, to            netip.Addr
	port                uint16 // of the data plane
	header              uint64
	source, destination [16]byte
}

// entry is what packets from the core get: they go to the host's stack, or each flow of them to where relayKey says.
type entry struct {
	relays bool
	until  time.Time
	use    packets.Use
}

// relayKey is a flow that is relayed.
type relayKey struct {
	entryKey
	ports    uint32
	protocol uint8
}

// plain is what is read of a packet that the caches serve.
type plain struct {
	key           flowKey
	ttl, class    uint8
	payloadOffset int
	flags         uint8 // of TCP
}

// The flags of TCP packets that begin or end a connection.
const tcpFINSYNRST = 0x07

// isModels reports whether a packet is the model's to judge whatever the caches know of its flow: it may begin or end a
// connection that may be bound.
func (e *Engine) isModels(p *plain) bool { return p.flags&tcpFINSYNRST != 0 && e.subflows.Load() }

func (p *plain) source() netip.Addr {
	if p.key.family == 4 {
		return netip.AddrFrom4([4]byte(p.key.source[:4]))
	}
	return netip.AddrFrom16(p.key.source)
}

// readPlain reads TCP and UDP behind an IP header without options or extension headers, that is no fragment.
func readPlain(p []byte) (plain, bool) { return readPlainOf(p, len(p)) }

// readPlainOf is readPlain for the headers of a packet of so many octets, which they have to say.
func readPlainOf(p []byte, octets int) (r plain, ok bool) {
	switch {
	case len(p) >= 28 && p[0] == 0x45:
		if int(binary.BigEndian.Uint16(p[2:])) != octets || binary.BigEndian.Uint16(p[6:])&0x3fff != 0 {
			return r, false
		}
		r.key.family, r.key.protocol, r.ttl, r.class, r.payloadOffset = 4, p[9], p[8], p[1], 20
		copy(r.key.source[:4], p[12:16])
		copy(r.key.destination[:4], p[16:20])
	case len(p) >= 48 && p[0]>>4 == 6:
		if int(binary.BigEndian.Uint16(p[4:])) != octets-40 {
			return r, false
		}
		r.key.family, r.key.protocol, r.ttl, r.class, r.payloadOffset = 6, p[6], p[7], p[0]<<4|p[1]>>4, 40
		copy(r.key.source[:], p[8:24])
		copy(r.key.destination[:], p[24:40])
	default:
		return r, false
	}
	r.key.ports = binary.BigEndian.Uint32(p[r.payloadOffset:])
	if flags := r.payloadOffset + 13; r.key.protocol == 6 && len(p) > flags {
		r.flags = p[flags]
	}
	return r, (r.key.protocol == 6 || r.key.protocol == 17) && r.ttl > 0
}

// flowOf makes an entry of what became of a packet of the site, or one that was relayed; nil where its flow needs the
// model each time.
func flowOf(o *forward.Outcome, now time.Time) *flow {
	if o.Miss || o.Varies&forward.VariesHeader != 0 || o.Notes&forward.NotePathUnidentified != 0 {
		return nil // a miss of an RLOC is counted and told, and a path that cannot be told is counted
	}
	f := &flow{until: now.Add(flowAge), largestInner: o.LargestInner}
	f.use.Negative = o.Negative
	switch o.What {
	case forward.DoPass, forward.DoNatively:
		f.natively, f.largestInner = true, math.MaxInt
		f.use.Passed, f.use.Native = o.What == forward.DoPass, o.What == forward.DoNatively
		return f
	case forward.DoEncapsulate, forward.DoRelay:
	default:
		return nil
	}
	outer, payload, ok := outerOf(o.Packet, o.SourcePort())
	if !ok || len(payload) != wire.DataHeaderOctets+o.Header.Length {
		return nil
	}
	outer.Relayed = o.Relayed
	f.outer, f.header, f.nonce = outer, [wire.DataHeaderOctets]byte(payload), o.Varies&forward.VariesNonce != 0
	f.use = packets.Use{
		Instance: o.Instance, Destination: o.Header.Destination, Proxied: o.Proxied, Relayed: o.Relayed,
		Negative: o.Negative,
	}
	if bound, ok := packets.BoundFlow(o); ok { // of a SYN as well: those that follow are no SYNs, else isModels
		f.use.Bound = &bound
	}
	return f
}

// headerFor is the LISP header of the next packet.
func (f *flow) headerFor(n *nonces) [wire.DataHeaderOctets]byte {
	h := f.header
	if f.nonce {
		nonce := n.next()
		h[1], h[2], h[3] = byte(nonce>>16), byte(nonce>>8), byte(nonce)
	}
	return h
}

// tallies are the uses of a goroutine's entries that the model was not told of yet.
type tallies struct {
	used []*packets.Use
	list []packets.Use
}

// add counts packets of an entry.
func (t *tallies) add(of *packets.Use, packets, octets int) {
	if of.Packets == 0 {
		t.used = append(t.used, of)
	}
	of.Packets += uint64(packets)
	of.Octets += uint64(octets)
}

// tell tells the model of all, and begins anew.
func (t *tallies) tell(m model.Hosted) {
	if len(t.used) == 0 {
		return
	}
	t.list = t.list[:0]
	for _, use := range t.used {
		t.list = append(t.list, *use)
		use.Packets, use.Octets = 0, 0
	}
	clear(t.used)
	t.used = t.used[:0]
	m.Account(t.list)
}

// nonces are random; one goroutine uses them at a time.
type nonces struct{ source *rand.ChaCha8 }

func newNonces() *nonces {
	var seed [32]byte
	for i := 0; i < len(seed); i += 8 {
		binary.NativeEndian.PutUint64(seed[i:], rand.Uint64()) // of the runtime's own generator
	}
	return &nonces{rand.NewChaCha8(seed)}
}

func (n *nonces) next() uint32 { return uint32(n.source.Uint64()) & 0xffffff }
