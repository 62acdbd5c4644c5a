// SPDX-License-Identifier: Apache-2.0

// This file keeps which flows are bound to a path, in the maps that programs ask (bpf/abi_paths.h). The map of bindings
// is the truth for the process after this one; that of pairs of addresses follows from it. It does not judge a flow.

package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cilium/ebpf"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/tables"
	"loci/lisp"
)

// bindingsPiece is how many bindings are read at a time.
const bindingsPiece = 512

// Bindings are the flows that are bound. One caller at a time may change them.
type Bindings struct {
	flows, pairs *ebpf.Map
	count        *uint32 // for programs: how many there are
	of           map[abi.BindingKey]int
}

// sourceOf is the key that flows of a source EID have in common, of which there is a number in Bindings.of.
func sourceOf(key abi.BindingKey) abi.BindingKey {
	return abi.BindingKey{Iid: key.Iid, Family: key.Family, Source: key.Source}
}

// Bindings gives access to the flows that are bound.
func (s *Store) Bindings() Bindings {
	return Bindings{s.maps[abi.MapBindings], s.maps[abi.MapBoundPairs], &s.Changed.Numbers.Bindings, s.boundOf}
}

// bindingKey is the key of a flow.
func bindingKey(f lisp.Flow) abi.BindingKey {
	source, destination := f.Source.Addr(), f.Destination.Addr()
	return abi.BindingKey{
		Iid: uint32(f.Instance), Ports: portsOf(f.SourcePort, f.DestinationPort), Family: abi.Family(source),
		Protocol: f.Protocol,
		Source:   abi.Octets(source), Destination: abi.Octets(destination),
	}
}

// portsOf are two ports as they stand in a packet.
func portsOf(source, destination uint16) uint32 {
	octets := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, source), destination)
	return binary.NativeEndian.Uint32(octets)
}

func flowOf(key *abi.BindingKey) lisp.Flow {
	octets := binary.NativeEndian.AppendUint32(nil, key.Ports)
	return lisp.Flow{
		Instance: lisp.InstanceID(key.Iid), Protocol: key.Protocol,
		Source:      lisp.EIDFromAddr(abi.Addr(key.Family, key.Source)),
		Destination: lisp.EIDFromAddr(abi.Addr(key.Family, key.Destination)),
		SourcePort:  binary.BigEndian.Uint16(octets), DestinationPort: binary.BigEndian.Uint16(octets[2:]),
	}
}

// pairOf is the key of the pair of addresses that a flow is between.
func pairOf(key abi.BindingKey) abi.BindingKey {
	key.Ports, key.Protocol = 0, 0
	return key
}

// Binding is a flow that is bound; times are since boot.
type Binding struct {
	Flow      lisp.Flow
	Path      lisp.Path
	CreatedNs uint64
	used      Usage
}

// LastUsedNs is when a packet of the flow last went by, 0 for never; now is the time since boot.
func (b *Binding) LastUsedNs(now uint64) uint64 { return b.used.Nanoseconds(now) }

// Count is how many flows are bound.
func (b Bindings) Count() int { return int(atomic.LoadUint32(b.count)) }

// Put binds a flow from now on, the time since boot. One that is bound keeps its times.
func (b Bindings) Put(flow lisp.Flow, path lisp.Path, now uint64) error {
	key := bindingKey(flow)
	binding := abi.Binding{CreatedNs: now, Path: tables.PathNumber(path), Hops: tables.SavePath(path)}
	var old abi.Binding
	err := b.flows.Lookup(key, &old)
	if err == nil {
		binding.CreatedNs, binding.LastUsed = old.CreatedNs, old.LastUsed
		return b.flows.Put(key, binding)
	}
	if !errors.Is(err, ebpf.ErrKeyNotExist) {
		return err
	}
	if b.Count() >= dataplane.MaxFlows {
		return fmt.Errorf("%w: %d flows are bound", dataplane.ErrFull, dataplane.MaxFlows)
	}
	if b.of[sourceOf(key)] >= dataplane.MaxFlowsOfSource {
		return fmt.Errorf("%w: %d flows of its source EID are bound", dataplane.ErrFull,
			dataplane.MaxFlowsOfSource)
	}
	if err := b.add(pairOf(key), 1); err != nil {
		return err
	}
	if err := b.flows.Put(key, binding); err != nil {
		return errors.Join(err, b.add(pairOf(key), ^uint32(0)))
	}
	atomic.AddUint32(b.count, 1)
	b.of[sourceOf(key)]++
	return nil
}

// Delete ends a binding; false when there is none.
func (b Bindings) Delete(flow lisp.Flow) (bool, error) {
	return b.remove(bindingKey(flow))
}

func (b Bindings) remove(key abi.BindingKey) (bool, error) {
	switch err := b.flows.Delete(key); {
	case errors.Is(err, ebpf.ErrKeyNotExist):
		return false, nil
	case err != nil:
		return false, err
	}
	atomic.AddUint32(b.count, ^uint32(0))
	if b.of[sourceOf(key)]--; b.of[sourceOf(key)] <= 0 {
		delete(b.of, sourceOf(key))
	}
	return true, b.add(pairOf(key), ^uint32(0))
}

// add changes how many flows between two addresses are bound.
func (b Bindings) add(pair abi.BindingKey, change uint32) error {
	var count uint32
	if err := b.pairs.Lookup(pair, &count); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return err
	}
	if count += change; count == 0 {
		return b.pairs.Delete(pair)
	}
	return b.pairs.Put(pair, count)
}

// Clear ends all bindings.
func (b Bindings) Clear() error {
	none := func(abi.BindingKey) bool { return false }
	return errors.Join(Prune[abi.BindingKey, abi.Binding](b.flows, none), b.Adopt())
}

// Adopt counts what an earlier process left. It may have been killed between the two maps.
func (b Bindings) Adopt() error {
	pairs, count := map[abi.BindingKey]uint32{}, uint32(0)
	clear(b.of)
	var at Cursor
	for !at.Done {
		piece, err := b.read(&at)
		if err != nil {
			return err
		}
		for i := range piece.keys {
			pairs[pairOf(piece.keys[i])]++
			b.of[sourceOf(piece.keys[i])]++
		}
		count += uint32(len(piece.keys))
	}
	for pair, n := range pairs {
		if err := b.pairs.Put(pair, n); err != nil {
			return err
		}
	}
	atomic.StoreUint32(b.count, count)
	return Prune[abi.BindingKey, uint32](b.pairs, In(pairs))
}

// Cursor is where reading goes on; the zero Cursor begins.
type Cursor struct {
	batch ebpf.MapBatchCursor
	Done  bool
}

type bindingsRead struct {
	keys   []abi.BindingKey
	values []abi.Binding
}

func (b Bindings) read(at *Cursor) (bindingsRead, error) {
	r := bindingsRead{make([]abi.BindingKey, bindingsPiece), make([]abi.Binding, bindingsPiece)}
	n, err := b.flows.BatchLookup(&at.batch, r.keys, r.values, nil)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		at.Done, err = true, nil
	}
	return bindingsRead{r.keys[:n], r.values[:n]}, err
}

// Unreadable is a binding whose path cannot be read.
type Unreadable struct {
	Flow lisp.Flow
	Why  error
	key  abi.BindingKey
}

// Remove ends it.
func (b Bindings) Remove(u *Unreadable) error {
	_, err := b.remove(u.key)
	return err
}

// Read returns the next of the flows that are bound, until the cursor is done, and apart those whose path cannot be
// read.
func (b Bindings) Read(at *Cursor) (bindings []Binding, unreadable []Unreadable, err error) {
	piece, err := b.read(at)
	if err != nil {
		return nil, nil, err
	}
	bindings = make([]Binding, 0, len(piece.keys))
	for i := range piece.keys {
		flow, value := flowOf(&piece.keys[i]), &piece.values[i]
		saved := tables.SavedPath(value.Hops)
		path, err := saved.Path()
		if err != nil {
			unreadable = append(unreadable, Unreadable{flow, err, piece.keys[i]})
			continue
		}
		bindings = append(bindings, Binding{flow, path, value.CreatedNs, Usage{lastUsed: value.LastUsed}})
	}
	return bindings, unreadable, nil
}
