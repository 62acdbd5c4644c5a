// SPDX-License-Identifier: Apache-2.0

// This file tells the control plane about destinations without a mapping: from the
// programs' ring buffer and from the pending-packet queue, which often report the same
// packet, so that each destination is told about once in a while (RFC 9301 s.8.1
// leaves the rest to the ITR). It never waits for the reader of the events.

package pending

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/forward"
	"loci/lisp"
)

const (
	// MissInterval is the shortest time between two misses of one destination.
	MissInterval = time.Second
	// maxRecentMisses bounds the memory of destinations told about.
	maxRecentMisses = 1 << 14
	// eventPlaces is how many events wait for their reader before more are lost.
	eventPlaces = 4096
	// handedPlaces bounds the packets among them, of up to 64 KiB each.
	handedPlaces = 1024
)

// Misses is where misses go.
type Misses struct {
	events chan dataplane.Event
	lost   *uint64
	nameOf func(ifindex uint32) string
	// queueTells says that the pending-packet queue raises the misses of an Instance-ID.
	queueTells func(lisp.InstanceID) bool
	// covering returns the map-cache entry that covers an EID.
	covering func(lisp.InstanceID, netip.Addr) (lisp.Prefix, bool)

	atOnce atomic.Pointer[func([]dataplane.Event) bool] // takes events in the goroutine that found them

	mu     sync.Mutex
	recent map[forward.Destination]time.Time
}

// NewMisses makes what counts events without room in lost. nameOf names interfaces; queueTells and covering are
// explained above.
func NewMisses(lost *uint64, nameOf func(ifindex uint32) string, queueTells func(lisp.InstanceID) bool, covering func(lisp.InstanceID, netip.Addr) (lisp.Prefix, bool)) *Misses {
	return &Misses{
		events: make(chan dataplane.Event, eventPlaces), lost: lost, nameOf: nameOf, queueTells: queueTells, covering: covering,
		recent: map[forward.Destination]time.Time{},
	}
}

// Events are the events, until close.
func (m *Misses) Events() <-chan dataplane.Event { return m.events }

// TellAtOnce has events taken in the goroutine that found them, as long as take returns true.
func (m *Misses) TellAtOnce(take func([]dataplane.Event) bool) { m.atOnce.Store(&take) }

// Close says that no more events come.
func (m *Misses) Close() { close(m.events) }

// A missedPacket packet.
type missedPacket struct {
	destination forward.Destination
	source      lisp.EID
	ifindex     uint32
	form        dataplane.MissForm
	octets      []byte // that are told; not to be changed
}

// raise sends an event, unless one of that destination was sent just before. It
// reports false when there was no room for it.
func (m *Misses) raise(now time.Time, packet missedPacket) bool {
	return !m.due(now, packet.destination) || m.send(packet)
}

// tellAtOnce tells of packets those who take events at once, if they do.
func (m *Misses) tellAtOnce(packets []missedPacket) bool {
	take := m.atOnce.Load()
	if take == nil || len(m.events) > 0 {
		return false
	}
	events := make([]dataplane.Event, len(packets))
	for i := range packets {
		events[i] = m.eventOf(packets[i])
	}
	return (*take)(events)
}

// send sends an event that is due, or forgets it when there is no room.
func (m *Misses) send(packet missedPacket) bool {
	select {
	case m.events <- m.eventOf(packet):
		return true
	default:
		atomic.AddUint64(m.lost, 1)
		m.forget(packet.destination)
		return false
	}
}

func (m *Misses) eventOf(packet missedPacket) dataplane.Miss {
	return dataplane.Miss{
		Instance: packet.destination.Instance, Source: packet.source, Destination: packet.destination.EID,
		Interface: m.nameOf(packet.ifindex), Form: packet.form, Packet: packet.octets,
	}
}

// handOver gives a packet to the control plane; false while that has many to read.
func (m *Misses) handOver(packet missedPacket) bool {
	if len(m.events) >= handedPlaces {
		return false
	}
	event := m.eventOf(packet)
	event.Handed = true
	select {
	case m.events <- event:
		return true
	default:
		return false
	}
}

// Tell sends an event that matters less than a miss: while many wait it is lost.
func (m *Misses) Tell(event dataplane.Event) {
	if len(m.events) < eventPlaces/2 {
		select {
		case m.events <- event:
			return
		default:
		}
	}
	atomic.AddUint64(m.lost, 1)
}

func (m *Misses) due(now time.Time, destination forward.Destination) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if last, ok := m.recent[destination]; ok && now.Sub(last) < MissInterval {
		return false
	}
	if len(m.recent) >= maxRecentMisses {
		m.forgetOld(now)
	}
	m.recent[destination] = now
	return true
}

func (m *Misses) forgetOld(now time.Time) {
	for destination, last := range m.recent {
		if now.Sub(last) >= MissInterval {
			delete(m.recent, destination)
		}
	}
	if len(m.recent) >= maxRecentMisses {
		clear(m.recent) // an event too many does no harm
	}
}

// forget lets the next packet for a destination raise an event at once.
func (m *Misses) forget(destination forward.Destination) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.recent, destination)
}

// Read raises what the programs report until the ring buffer is closed.
func (m *Misses) Read(ring *EventRing, log *slog.Logger) { readAll(ring, log, m.take) }

// ReadSubflows does so for the ring buffer of packets that begin or end a flow which may be bound.
func (m *Misses) ReadSubflows(ring *EventRing, log *slog.Logger) { readAll(ring, log, m.takeSubflow) }

// readAll has what the programs report taken, until the ring buffer is closed.
func readAll(ring *EventRing, log *slog.Logger, take func(sample []byte) error) {
	var record ringbuf.Record
	for {
		err := ring.next(&record)
		if errors.Is(err, ringbuf.ErrClosed) {
			return
		}
		if err != nil {
			log.Error("events of the programs cannot be read", "error", err)
			return
		}
		if err := take(record.RawSample); err != nil {
			log.Warn("event of a program is not understood", "error", err)
		}
	}
}

// take raises what one event of the programs says.
func (m *Misses) take(sample []byte) error {
	event, err := eventFrom(sample)
	if err != nil {
		return err
	}
	if event.Kind != uint32(abi.EventMiss) {
		return m.hint(event)
	}
	packet, err := missFrom(event)
	if err != nil {
		return err
	}
	// The queue told of a packet that waits long before an event that old was read.
	if !m.queueTells(packet.destination.Instance) && !isOld(event.TimeNs) {
		_ = m.raise(time.Now(), packet) // the packet waits, or was dropped: the next one tells
	}
	return nil
}

// isOld reports that a packet which was missed at a time (CLOCK_BOOTTIME) is told about by
// the one that waits, or by the next one.
func isOld(missedNs uint64) bool {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return false
	}
	return now.Nano()-int64(missedNs) > int64(MissInterval)
}

func eventFrom(sample []byte) (*abi.Event, error) {
	if len(sample) < int(unsafe.Sizeof(abi.Event{})) {
		return nil, fmt.Errorf("%d octets", len(sample))
	}
	return (*abi.Event)(unsafe.Pointer(&sample[0])), nil
}

func missFrom(event *abi.Event) (missedPacket, error) {
	if event.Kind != uint32(abi.EventMiss) || event.Family != 4 && event.Family != 6 {
		return missedPacket{}, fmt.Errorf("kind %d, family %d", event.Kind, event.Family)
	}
	return missedPacket{
		destination: forward.Destination{
			Instance: lisp.InstanceID(event.Iid), EID: lisp.EIDFromAddr(abi.Addr(event.Family, event.Destination)),
		},
		source:  lisp.EIDFromAddr(abi.Addr(event.Family, event.Source)),
		ifindex: event.Ifindex,
	}, nil
}
