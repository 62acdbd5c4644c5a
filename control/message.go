// SPDX-License-Identifier: Apache-2.0

package control

// Messages as roles take them: parsed, authenticated, their EIDs and RLOCs turned
// into values. Inspect makes them; they hold nothing of the packet's bytes.

import (
	"net/netip"

	"loci/lisp"
	"loci/wire"
)

// arrival is where a packet came from and to which of our addresses.
type arrival struct{ local, from netip.AddrPort }

// mapRequest is a Map-Request, an RLOC-probe or an SMR.
type mapRequest struct {
	arrival
	*wire.MapRequest
	ecm            *wire.EncapsulatedControlMessage // what it came in, nil when it came directly
	replyPort      uint16
	prefixes       []lisp.Prefix // at least one
	itrRLOCs       []lisp.RLOC   // those that are IP addresses
	sourceInstance lisp.InstanceID
	source         lisp.EID
	piggybacked    lisp.Prefix      // of the mapping that came along (M), zero for none
	foreseen       foreseen         // of the one prefix
	forwardedTo    []netip.AddrPort // by this turn, so that several records mean one copy

	// Room for the lists of usual messages, so that the hundreds of thousands a second are
	// made in one piece each.
	usualPrefixes  [1]lisp.Prefix
	usualRLOCs     [2]lisp.RLOC
	usualForwarded [1]netip.AddrPort
}

// site is the EID that a Map-Request is from, where that is like the EID-Prefix asked for; zero otherwise, and for
// RLOC-probes, whose source may be the probed site's.
func (m *mapRequest) site(asked lisp.Prefix) lisp.Prefix {
	if m.Probe || m.source.IsZero() || m.source.Kind() != asked.Kind() || m.sourceInstance != asked.Instance() {
		return lisp.Prefix{}
	}
	return lisp.HostPrefix(m.sourceInstance, m.source)
}

// Room is memory for a message. What was inspected in it is overwritten by the next
// message that is.
type Room struct {
	request  mapRequest
	reply    mapReply
	mappings []lisp.Mapping
	message  wire.Room
}

// forMessage is where the message itself goes; nil for new memory.
func (room *Room) forMessage() *wire.Room {
	if room == nil {
		return nil
	}
	return &room.message
}

// forMapRequest is a Map-Request of which nothing else is known, in the room or in new memory.
func (room *Room) forMapRequest(at arrival, m *wire.MapRequest, replyPort uint16) *mapRequest {
	if room == nil {
		return &mapRequest{arrival: at, MapRequest: m, replyPort: replyPort}
	}
	room.request = mapRequest{arrival: at, MapRequest: m, replyPort: replyPort}
	return &room.request
}

// forMapReply is a Map-Reply, to be overwritten.
func (room *Room) forMapReply() *mapReply {
	if room == nil {
		return &mapReply{}
	}
	return &room.reply
}

// forMappings are so many mappings, to be overwritten.
func (room *Room) forMappings(n int) []lisp.Mapping {
	if room == nil {
		return make([]lisp.Mapping, n)
	}
	if n > cap(room.mappings) {
		room.mappings = make([]lisp.Mapping, n)
	}
	return room.mappings[:n:n]
}

// mapReply is a Map-Reply.
type mapReply struct {
	arrival
	nonce    uint64
	probe    bool
	mappings []lisp.Mapping // at least one
}

// mapRegister is an authenticated Map-Register.
type mapRegister struct {
	arrival
	*wire.MapRegister                 // its records are those of mappings
	mappings          []lisp.Mapping  // that the site may register
	refused           []refusedRecord // the other records
	site              string
	key               Key
}

// refusedRecord is a record that is not taken, while the others of its message are.
type refusedRecord struct {
	prefix lisp.Prefix
	why    *Refusal
}

// sift refuses the records that anything stands against.
func (m *mapRegister) sift(against func(lisp.Mapping) *Refusal) {
	var records []wire.Record // nil as long as all are kept
	kept := 0
	for i := range m.mappings {
		why := against(m.mappings[i])
		if why != nil {
			if records == nil {
				records = append(make([]wire.Record, 0, len(m.Records)), m.Records[:i]...)
			}
			m.refused = append(m.refused, refusedRecord{m.mappings[i].Prefix, why})
			continue
		}
		m.mappings[kept] = m.mappings[i]
		kept++
		if records != nil {
			records = append(records, m.Records[i])
		}
	}
	if m.mappings = m.mappings[:kept]; records != nil {
		sifted := *m.MapRegister // the message is not ours to change
		sifted.Records, m.MapRegister = records, &sifted
	}
}

// mapNotify is an authenticated Map-Notify.
type mapNotify struct {
	arrival
	*wire.MapNotify
	peer peerID // the Map-Server it is from, and the site whose key it has
}

// mapNotifyAck is a Map-Notify-Ack that a key of its site authenticated. One without records tells no site: it is authenticated when
// its nonce has told the Map-Notify that it acknowledges.
type mapNotifyAck struct {
	arrival
	nonce            uint64
	site             string
	keyID, algorithm uint8
	unverified       []byte // the whole of one without records, nil otherwise
}

// foreseen is a lookup that was made ahead.
type foreseen struct {
	edits uint64 // of the table until then
	row   uint32
	ok    bool
}
