// SPDX-License-Identifier: Apache-2.0

package message

// Messages as roles take them: parsed, authenticated, their EIDs and RLOCs turned
// into values. Inspect makes them; they hold nothing of the packet's bytes.

import (
	"net/netip"

	"loci/control/internal/settings"
	"loci/lisp"
	"loci/wire"
)

// Arrival is where a packet came from and to which of our addresses.
type Arrival struct{ Local, From netip.AddrPort }

// MapRequest is a Map-Request, an RLOC-probe or an SMR.
type MapRequest struct {
	Arrival
	*wire.MapRequest
	ECM            *wire.EncapsulatedControlMessage // what it came in, nil when it came directly
	ReplyPort      uint16
	Prefixes       []lisp.Prefix // at least one
	Flow           *lisp.Flow    // whose path it asks for, nil for none; Prefixes has its destination then
	ReplyRLOCs     []lisp.RLOC   // those that are IP addresses
	SourceInstance lisp.InstanceID
	Source         lisp.EID
	Piggybacked    lisp.Prefix      // of the mapping that came along (M), zero for none
	ForwardedTo    []netip.AddrPort // by this event-loop iteration, so that several records mean one copy

	// Scratch for the lists of usual messages, so that the hundreds of thousands a second are
	// made in one piece each.
	usualPrefixes  [1]lisp.Prefix
	usualRLOCs     [2]lisp.RLOC
	UsualForwarded [1]netip.AddrPort
}

// Site is the EID that a Map-Request is from, where that is like the EID-Prefix asked for; zero otherwise, and for
// RLOC-probes, whose source may be the probed site's.
func (m *MapRequest) Site(asked lisp.Prefix) lisp.Prefix {
	if m.Probe || m.Source.IsZero() || m.Source.Kind() != asked.Kind() || m.SourceInstance != asked.Instance() {
		return lisp.Prefix{}
	}
	return lisp.HostPrefix(m.SourceInstance, m.Source)
}

// Scratch is memory for a message. What was inspected in it is overwritten by the next
// message that is.
type Scratch struct {
	Request  MapRequest
	reply    MapReply
	mappings []lisp.Mapping
	message  wire.Room
}

// forMessage is where the message itself goes; nil for new memory.
func (scratch *Scratch) forMessage() *wire.Room {
	if scratch == nil {
		return nil
	}
	return &scratch.message
}

// forMapRequest is a Map-Request of which nothing else is known, in the scratch buffer or in new memory.
func (scratch *Scratch) forMapRequest(at Arrival, m *wire.MapRequest, replyPort uint16) *MapRequest {
	if scratch == nil {
		return &MapRequest{Arrival: at, MapRequest: m, ReplyPort: replyPort}
	}
	scratch.Request = MapRequest{Arrival: at, MapRequest: m, ReplyPort: replyPort}
	return &scratch.Request
}

// forMapReply is a Map-Reply, to be overwritten.
func (scratch *Scratch) forMapReply() *MapReply {
	if scratch == nil {
		return &MapReply{}
	}
	return &scratch.reply
}

// forMappings are so many mappings, to be overwritten.
func (scratch *Scratch) forMappings(n int) []lisp.Mapping {
	if scratch == nil {
		return make([]lisp.Mapping, n)
	}
	if n > cap(scratch.mappings) {
		scratch.mappings = make([]lisp.Mapping, n)
	}
	return scratch.mappings[:n:n]
}

// MapReply is a Map-Reply.
type MapReply struct {
	Arrival
	Nonce    uint64
	Probe    bool
	Mappings []lisp.Mapping // at least one, unless Refused says why there is none
	Skipped  []SkippedLocators
	Named    []NamedLocator // of an RTR of nodes behind NATs alone
	Refused  *Refusal       // why the records of an answer to an RLOC-probe are not used: it is a sign of life all the same
}

// SkippedLocators are those of a mapping that an ITR cannot use.
type SkippedLocators struct {
	Prefix   lisp.Prefix
	Locators []wire.SkippedLocator
}

// NamedLocator is a locator of a mapping that has the name of its host (simple-nat).
type NamedLocator struct {
	Prefix   lisp.Prefix
	RLOC     lisp.RLOC
	Name     string
	Priority uint8
}

// MapRegister is an authenticated Map-Register.
type MapRegister struct {
	Arrival
	*wire.MapRegister                 // its records are those of mappings
	Mappings          []lisp.Mapping  // that the site may register
	Refused           []RefusedRecord // the other records
	Site              string
	Key               settings.Key
	Relayed           *wire.EncapsulatedControlMessage // what an RTR relayed it in, without its message; nil when it came directly
}

// RefusedRecord is a record that is not taken, while the others of its message are.
type RefusedRecord struct {
	Prefix lisp.Prefix
	Why    *Refusal
}

// Sift refuses the records that anything stands against.
func (m *MapRegister) Sift(against func(lisp.Mapping) *Refusal) {
	var records []wire.Record // nil as long as all are kept
	kept := 0
	for i := range m.Mappings {
		why := against(m.Mappings[i])
		if why != nil {
			if records == nil {
				records = append(make([]wire.Record, 0, len(m.Records)), m.Records[:i]...)
			}
			m.Refused = append(m.Refused, RefusedRecord{m.Mappings[i].Prefix, why})
			continue
		}
		m.Mappings[kept] = m.Mappings[i]
		kept++
		if records != nil {
			records = append(records, m.Records[i])
		}
	}
	if m.Mappings = m.Mappings[:kept]; records != nil {
		sifted := *m.MapRegister // the message is not ours to change
		sifted.Records, m.MapRegister = records, &sifted
	}
}

// MapNotify is an authenticated Map-Notify.
type MapNotify struct {
	Arrival
	*wire.MapNotify
	Peer settings.PeerID // the Map-Server it is from, and the site whose key it has
}

// MapNotifyAck is a Map-Notify-Ack that a key of its site authenticated. One without records tells no site: it is
// authenticated when its nonce has told the Map-Notify that it acknowledges.
type MapNotifyAck struct {
	Arrival
	Nonce            uint64
	Site             string
	KeyID, Algorithm uint8
	Unverified       []byte // the whole of one without records, nil otherwise
}
