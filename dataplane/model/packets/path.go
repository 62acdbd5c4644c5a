// SPDX-License-Identifier: Apache-2.0

// Package packets is the way of packets through the engine in memory: what package forward decides is counted,
// queued, answered and handed over. It has no lock: the engine holds its own meanwhile.
package packets

import (
	"net/netip"
	"time"

	"loci/dataplane"
	"loci/dataplane/model/tables"
	"loci/forward"
	"loci/lisp"
)

// Options are what a Path is made with. All but the two that go with Routed must be there.
type Options struct {
	Control *dataplane.ControlMeter // of control messages in data packets
	Now     func() time.Time        // the clock
	Nonce   func() uint32           // for LISP headers
	Emit    func(Emission)          // receives what is sent; it must not call the engine
	Marking forward.Marking

	// Routed: the host routes what is decapsulated, and counts the hop (host.go).
	Routed bool
	// AnswerFrom is the address that answers to a source of the site come from; nil: an own RLOC of its family.
	AnswerFrom func(to netip.Addr) netip.Addr
	// IsHost reports whether an address is one of the host, with Routed: what is decapsulated for it ends here,
	// whatever its TTL.
	IsHost func(netip.Addr) bool
}

// Way is where a packet goes.
type Way uint8

// The ways.
const (
	ToCore   Way = iota // encapsulated
	ToSite              // decapsulated, or an answer to a host of the site
	ToStack             // decapsulated, for this system itself
	Natively            // as without LISP
)

// Emission is a packet that an engine sends.
type Emission struct {
	Way         Way
	Packet      []byte
	Destination lisp.RLOC // with ToCore
	SourcePort  uint16    // with ToCore: that its locator has; 0: that of its flow
	Relayed     bool      // with ToCore: by an RTR
	Interface   string    // where the packet came from; empty for own packets
}

// Path is the way of packets, with what it remembers of them.
type Path struct {
	options      Options
	settings     dataplane.Settings
	tables       *tables.Tables
	router       forward.XTR
	waiting      *forward.WaitQueue[waitingPacket]
	unreachables limiter // of answers, by source
	misses       limiter // of events, by destination
	subflows     subflowLimiter
	sources      sources
	counters     counters
	Queue        *EventQueue // what the control plane is to know
}

// New makes a Path by the tables, with the default waiting bounds.
func New(o Options, t *tables.Tables) *Path {
	p := &Path{
		options: o, tables: t,
		settings: dataplane.Settings{Wait: dataplane.DefaultWaitBounds},
		waiting:  forward.NewWaitQueue[waitingPacket](forward.WaitBounds(dataplane.DefaultWaitBounds)),
		Queue:    newEventQueue(),
		misses:   limiter{interval: missInterval}, unreachables: limiter{interval: unreachableInterval},
	}
	p.counters.Drops, p.counters.Other = map[string]uint64{}, map[string]uint64{}
	p.router = forward.XTR{Tables: t, Marking: o.Marking, Memory: &forward.Memory{}, Miss: missesOf(&p.settings)}
	return p
}

// Closed reports whether the Path was closed.
func (p *Path) Closed() bool { return p.Queue.closed }

// Close ends the events. Packets pass as without LISP from then on.
func (p *Path) Close() {
	if !p.Queue.closed {
		p.Queue.close()
	}
}

// Memory is what is remembered of other routers' headers.
func (p *Path) Memory() *forward.Memory { return p.router.Memory }
