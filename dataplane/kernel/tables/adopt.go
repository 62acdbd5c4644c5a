// SPDX-License-Identifier: Apache-2.0

// This file reads tables back that an earlier process left in pinned maps: the
// records are the truth, and the forwarding table is compiled anew beside the one
// that programs use meanwhile. Half an edit of a process that was killed is at worst
// an edit that was never made, or one that is made now; half a change of own RLOCs is
// finished when the settings are applied.

package tables

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/lpm"
)

// Adopt fills tables that are still empty and offline from their own records, and
// says why it refused some: those are gone.
func (t *Tables) Adopt() (refused []error, err error) {
	refused = t.refuseRecords(nil)
	bad, twins := map[uint32]error{}, map[uint32]uint32{}
	for set, uses := range t.usesOfSets() {
		switch stands, err := t.Sets.adopt(set, uses); {
		case err != nil:
			bad[set] = err
		case stands != set:
			twins[set] = stands
		}
	}
	if len(bad) > 0 {
		refused = append(refused, t.refuseRecords(bad)...)
	}
	for index := range t.Records {
		record := &t.Records[index]
		if !InForce(record) {
			continue
		}
		if stands, ok := twins[record.LocatorSet]; ok {
			atomic.StoreUint32(&record.LocatorSet, stands)
		}
		err := t.adoptRecord(uint32(index))
		if errors.Is(err, dataplane.ErrFull) { // the table takes another shape than the one before had
			refused = append(refused, fmt.Errorf("entry %d: %w", index, err))
			t.refuse(record)
		} else if err != nil {
			return refused, err
		}
	}
	t.indexes.adopt(func(index uint32) bool { return t.Born[index] != 0 })
	t.Sets.Indexes.Adopt(func(index uint32) bool { return t.Sets.uses[index].mappings > 0 })
	return refused, t.Sets.forgetUnusedPaths()
}

// refusedTold is of how many refused entries the reason is told: a table that is too small now may lack room for a million.
const refusedTold = 16

// LogRefused logs which entries were removed, and why.
func LogRefused(log *slog.Logger, refused []error) {
	told := refused[:min(len(refused), refusedTold)]
	for _, reason := range told {
		log.Warn("an entry in force makes no sense, or has no room, and was removed", "reason", reason)
	}
	if more := len(refused) - len(told); more > 0 {
		log.Warn("more entries in force were removed", "entries", more)
	}
}

// refuseRecords removes records that make no sense, such as those of another
// program, of a prefix that stands twice, or of a bad locator-set.
func (t *Tables) refuseRecords(badSets map[uint32]error) (refused []error) {
	seen := map[lpm.Key]struct{}{}
	for index := range t.Records {
		record := &t.Records[index]
		if !InForce(record) {
			continue
		}
		key := KeyOf(record)
		err := badSets[record.LocatorSet]
		if _, twice := seen[key]; twice {
			err = fmt.Errorf("prefix stands twice")
		} else if err == nil {
			err = lpm.CheckKey(key)
		}
		if err != nil {
			refused = append(refused, fmt.Errorf("entry %d: %w", index, err))
			atomic.StoreUint32(&record.Cookie, record.Cookie|cookieDeleted)
			continue
		}
		seen[key] = struct{}{}
	}
	return refused
}

// refuse removes a record that is not linked, and whose locator-set was taken over.
func (t *Tables) refuse(record *abi.Mapping) {
	atomic.StoreUint32(&record.Cookie, record.Cookie|cookieDeleted)
	t.Sets.release(record.LocatorSet)
}

// adoptRecord links a record in force.
func (t *Tables) adoptRecord(index uint32) error {
	record := &t.Records[index]
	key := KeyOf(record)
	if err := t.Table.MakeRoom(); err != nil {
		return err
	}
	if err := t.Table.Insert(key, index); err != nil {
		return err
	}
	atomic.StoreUint32(&record.Flags, record.Flags&^(abi.MappingHold|abi.MappingSingleNextHop)) // the process that held packets and watched routes is gone
	t.Generation++
	t.Born[index] = t.Generation
	t.addEntry(index, key.Kind)
	t.Table.Inserted(&key)
	return nil
}

// usesOfSets counts the records in force that refer to each locator-set.
func (t *Tables) usesOfSets() map[uint32]int {
	uses := map[uint32]int{}
	for index := range t.Records {
		if record := &t.Records[index]; InForce(record) && record.LocatorSet != abi.NoLocatorSet {
			uses[record.LocatorSet]++
		}
	}
	return uses
}
