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
	o.copied = make([]counted, o.maps[lisptcMapMappings].MaxEntries())
	for index := range o.copied {
		if !inForce(&s.records[index]) {
			continue
		}
		for at := index; at < len(s.usage); at += len(s.records) {
			o.copied[index].add(s.usage[at].Packets, s.usage[at].Octets)
		}
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
	pending, err1 := o.pendingNow(s)
	counters, err2 := o.array(s.spec, lisptcMapMappingCounters, "lisp_mapping_counters")
	defer counters.close()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	for index, was := range o.copied {
		if !inForce(&s.records[index]) {
			continue // or it made no sense
		}
		now := pending[uint32(index)]
		for at := index; at < int(counters.m.MaxEntries()); at += len(o.copied) {
			old, err := counters.at(uint32(at))
			if err != nil {
				return fmt.Errorf("counters of mapping %d: %w", index, err)
			}
			var c lisptcLispMappingCounters
			counters.translate(octetsAt(&c), old)
			now.add(c.Packets, c.Octets)
		}
		if now != was {
			atomic.AddUint64(&s.usage[index].Packets, now.packets-was.packets)
			atomic.AddUint64(&s.usage[index].Octets, now.octets-was.octets)
		}
	}
	return nil
}

// pendingNow is what programs have not added up, by mapping.
func (o *olderMaps) pendingNow(s *mapStore) (map[uint32]counted, error) {
	total := map[uint32]counted{}
	err := o.eachPending(s.spec, func(_ int, list *lisptcLispPending) {
		for _, item := range list.Items {
			if item == 0 {
				continue
			}
			sum := total[uint32(item>>32)]
			sum.add(1, uint64(uint32(item)))
			total[uint32(item>>32)] = sum
		}
	})
	return total, err
}
