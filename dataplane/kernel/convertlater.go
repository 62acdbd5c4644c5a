// SPDX-License-Identifier: Apache-2.0

// This file takes over what programs of an older layout counted for mappings after convert.go had copied their counters: they go on until others
// take their places. Packets of other counters and times of last use it leaves.

package kernel

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// counted is what all processors counted for a mapping.
type counted struct{ packets, octets uint64 }

func (c *counted) add(packets, octets uint64) {
	c.packets += packets
	c.octets += octets
}

// noteCopied keeps what was copied. No program counts in the new maps yet.
func (o *olderMaps) noteCopied(s *mapStore) {
	o.copied = map[uint32]counted{}
	for index := range s.records {
		if !inForce(&s.records[index]) {
			continue
		}
		var sum counted
		for at := index; at < len(s.usage); at += len(s.records) {
			sum.add(s.usage[at].Packets, s.usage[at].Octets)
		}
		o.copied[uint32(index)] = sum
	}
}

// takeLaterCounts adds what older programs, none of which is attached any more, counted since the copy, and lets their maps go. Only counts are lost
// when that fails.
func (e *Engine) takeLaterCounts() error {
	if e.older == nil {
		return nil
	}
	waitForPrograms()
	if err := e.older.addLater(e.store); err != nil {
		e.log.Warn("what mappings were used for during the conversion is not counted", "error", err)
	}
	err := e.older.close()
	e.older = nil
	return err
}

// addLater adds to one processor's counters, which its programs add to as well: by atomic additions.
func (o *olderMaps) addLater(s *mapStore) error {
	total, err := o.countedNow(s)
	if err != nil {
		return err
	}
	for index, now := range total {
		if was := o.copied[index]; now != was {
			atomic.AddUint64(&s.usage[index].Packets, now.packets-was.packets)
			atomic.AddUint64(&s.usage[index].Octets, now.octets-was.octets)
		}
	}
	return nil
}

// countedNow is what the older maps have for the mappings in force.
func (o *olderMaps) countedNow(s *mapStore) (map[uint32]counted, error) {
	m := o.maps[lisptcMapMappingCounters]
	counters, err := o.translator(s.spec, m, "lisp_mapping_counters")
	if err != nil {
		return nil, err
	}
	limit := o.maps[lisptcMapMappings].MaxEntries()
	total := make(map[uint32]counted, len(o.copied))
	old := make([]byte, counters.fromSize)
	for index := range o.copied {
		if !inForce(&s.records[index]) {
			continue // it made no sense
		}
		var sum counted
		for at := index; at < m.MaxEntries(); at += limit {
			if err := m.Lookup(at, &old); err != nil {
				return nil, fmt.Errorf("counters of mapping %d: %w", index, err)
			}
			var c lisptcLispMappingCounters
			counters.translate(octetsAt(&c), old)
			sum.add(c.Packets, c.Octets)
		}
		total[index] = sum
	}
	return total, o.addPendingTo(total, s)
}

// addPendingTo adds what programs have not added up.
func (o *olderMaps) addPendingTo(total map[uint32]counted, s *mapStore) error {
	m := o.maps[lisptcMapPendingCounts]
	if m == nil {
		return nil
	}
	pending, err := o.translator(s.spec, m, "lisp_pending")
	if err != nil {
		return err
	}
	var errs []error
	old := make([]byte, pending.fromSize)
	for processor := range m.MaxEntries() {
		errs = append(errs, m.Lookup(processor, &old))
		var list lisptcLispPending
		pending.translate(octetsAt(&list), old)
		for _, item := range list.Items {
			if sum, ok := total[uint32(item>>32)]; ok && item != 0 {
				sum.add(1, uint64(uint32(item)))
				total[uint32(item>>32)] = sum
			}
		}
	}
	return errors.Join(errs...)
}
