// SPDX-License-Identifier: Apache-2.0

// This file turns what the programs say about headers of others (bpf/nonce_lsb_version.h; RFC
// 9300 s.10, s.10.1, RFC 9302 s.7) into events for the control plane. The programs
// limit their rate. Nothing here is acted upon.

package kernel

import (
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/lisp"
)

// hint sends what an event says that is no miss.
func (m *misses) hint(e *abi.Event) error {
	if e.Family != 4 && e.Family != 6 || e.RlocFamily != 4 && e.RlocFamily != 6 {
		return fmt.Errorf("kind %d, families %d and %d", e.Kind, e.Family, e.RlocFamily)
	}
	from := lisp.RLOCFromAddr(abi.Addr(e.RlocFamily, e.Rloc))
	switch abi.EventKind(e.Kind) {
	case abi.EventStatusBits:
		prefix, ok := m.covering(lisp.InstanceID(e.Iid), abi.Addr(e.Family, e.Source))
		if ok { // else the mapping is gone meanwhile
			m.tell(dataplane.StatusBitsChanged{Prefix: prefix, From: from, Bits: e.Value, Count: int(e.Other)})
		}
	case abi.EventDestinationVersion:
		m.tell(dataplane.RemoteVersionStale{PacketVersions: versionsFrom(e, from)})
	case abi.EventSourceVersion:
		m.tell(dataplane.LocalVersionStale{PacketVersions: versionsFrom(e, from)})
	case abi.EventGleaned:
		v := versionsFrom(e, from)
		m.tell(dataplane.Gleaned{Instance: v.Instance, Source: v.Source, Destination: v.Destination, From: from})
	case abi.EventEchoMissing:
		m.tell(dataplane.NonceMismatch{RLOC: from, Sent: e.Value, Received: e.Other})
	default:
		return fmt.Errorf("kind %d", e.Kind)
	}
	return nil
}

func versionsFrom(e *abi.Event, from lisp.RLOC) dataplane.PacketVersions {
	return dataplane.PacketVersions{
		Instance: lisp.InstanceID(e.Iid), From: from,
		Source: lisp.EIDFromAddr(abi.Addr(e.Family, e.Source)), Destination: lisp.EIDFromAddr(abi.Addr(e.Family, e.Destination)),
		SourceVersion: uint16(e.Value), DestinationVersion: uint16(e.Other),
	}
}

// covering returns the prefix of the map-cache entry that covers an address.
func (e *Engine) covering(instance lisp.InstanceID, address netip.Addr) (lisp.Prefix, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	record, ok := e.tables.lookup(abi.RootMapCache, abi.Family(address), uint32(instance), address.AsSlice())
	if !ok {
		return lisp.Prefix{}, false
	}
	return e.prefixOf(record), true
}

// EchoNonce implements dataplane.EchoReporter.
func (e *Engine) EchoNonce(rloc lisp.RLOC) dataplane.EchoState {
	e.mu.Lock()
	defer e.mu.Unlock()
	var peer abi.Peer
	if err := e.store.maps[abi.MapPeers].Lookup(abi.KeyOf(rloc), &peer); err != nil {
		return dataplane.EchoState{}
	}
	e.followClock()
	return dataplane.EchoState{AskedAt: e.clock.fromBoot(peer.AskedNs), EchoedAt: e.clock.fromBoot(peer.EchoedNs), MissingAt: e.clock.fromBoot(peer.MissingNs)}
}

// sourcesPiece is how many sources are read at once: more than are in one bucket of the kernel's table.
const sourcesPiece = 1024

// Sources implements dataplane.SourceReporter.
func (e *Engine) Sources() iter.Seq2[lisp.RLOC, time.Time] {
	return func(yield func(lisp.RLOC, time.Time) bool) {
		var cursor ebpf.MapBatchCursor
		keys, times := make([]abi.RLOCKey, sourcesPiece), make([]uint64, sourcesPiece)
		for more := true; more; {
			var n int
			var ahead uint64
			n, ahead, more = e.sourcesFrom(&cursor, keys, times)
			for i := range n {
				if !yield(abi.RLOC(keys[i]), dayOf(times[i], ahead)) {
					return
				}
			}
		}
	}
}

// sourcesFrom reads the next sources, how far the time of day is ahead of their times, and whether there are others behind them.
func (e *Engine) sourcesFrom(cursor *ebpf.MapBatchCursor, keys []abi.RLOCKey, times []uint64) (n int, ahead uint64, more bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return 0, 0, false
	}
	e.followClock()
	n, err := e.store.maps[abi.MapSources].BatchLookup(cursor, keys, times, nil)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		e.log.Error("from which RLOCs packets come cannot be read", "error", err)
	}
	return n, e.clock.ahead(), err == nil
}
