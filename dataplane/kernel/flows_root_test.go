// SPDX-License-Identifier: Apache-2.0

// Flows that are bound to a path: what is refused, how many there may be, and what outlives a process. Which locator
// their packets take is what flow_cache_root_test.go shows. The tests need root.

package kernel

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/forward"
	"loci/lisp"
)

// flowOf is the flow of a packet in Instance-ID 0.
func flowOf(t *testing.T, packet []byte) lisp.Flow {
	t.Helper()
	h, err := forward.ParseHeader(packet)
	must(t, err)
	return lisp.Flow{
		Source: lisp.EIDFromAddr(h.Source), Destination: lisp.EIDFromAddr(h.Destination), Protocol: h.Protocol,
		SourcePort: uint16(h.Ports >> 16), DestinationPort: uint16(h.Ports),
	}
}

// boundFlows bind four flows, two of one pair of addresses.
func boundFlows() (operations []dataplane.Operation) {
	path, err := lisp.NewPath(lisp.RLOCFromAddr(rloc4(7)).WithPort(4000), lisp.RLOCFromAddr(rloc6(8)))
	if err != nil {
		panic(err)
	}
	for i, addresses := range [][2]netip.Addr{
		{siteAddress4(0, 10), siteAddress4(1, 10)}, {siteAddress4(0, 10), siteAddress4(1, 10)},
		{siteAddress6(0, 10), siteAddress6(1, 10)}, {siteAddress4(0, 10), siteAddress4(1, 10)},
	} {
		o := dataplane.PutFlow{Path: path, Flow: lisp.Flow{
			Source: lisp.EIDFromAddr(addresses[0]), Destination: lisp.EIDFromAddr(addresses[1]),
			Protocol: 6, SourcePort: 40000 + uint16(i), DestinationPort: 443,
		}}
		if i == 3 {
			o.Flow.Instance, o.Path = 70000, lisp.PathTo(lisp.RLOCFromAddr(rloc6(1)))
		}
		operations = append(operations, o)
	}
	return operations
}

// expectBoundFlows wants these, and programs to know of them.
func expectBoundFlows(t *testing.T, e *Engine) {
	t.Helper()
	bound := map[lisp.Flow]lisp.Path{}
	for f := range e.Flows() {
		if bound[f.Flow] = f.Path; time.Since(f.CreatedAt).Abs() > 10*time.Minute || !f.LastUsedAt.IsZero() {
			t.Errorf("flow %+v", f)
		}
	}
	for _, o := range boundFlows() {
		if o := o.(dataplane.PutFlow); bound[o.Flow] != o.Path {
			t.Errorf("flow %v is bound to %v, want %v", o.Flow, bound[o.Flow], o.Path)
		}
	}
	if n := e.store.Changed.Numbers.Bindings; len(bound) != 4 || n != 4 {
		t.Errorf("%d flows are bound, programs know of %d, want 4", len(bound), n)
	}
	pairs := 0
	var key abi.BindingKey
	var count uint32
	for iterator := e.store.Map(abi.MapBoundPairs).Iterate(); iterator.Next(&key, &count); pairs++ {
		if want := map[bool]uint32{true: 2, false: 1}[key.Family == 4 && key.Iid == 0]; count != want {
			t.Errorf("%d flows between the addresses of %+v, want %d", count, key, want)
		}
	}
	if pairs != 3 {
		t.Errorf("%d pairs of addresses have bound flows, want 3", pairs)
	}
}

// TestBoundFlows binds, binds anew, and refuses.
func TestBoundFlows(t *testing.T) {
	t.Parallel()
	a := newLinks(t).open(t, 0, Options{})
	a.apply(t, boundFlows()...)
	a.apply(t, boundFlows()...)
	expectBoundFlows(t, a.Engine)
	var first dataplane.FlowEntry
	for f := range a.Flows() {
		first = f
		break
	}
	other := lisp.PathTo(lisp.RLOCFromAddr(rloc4(9)))
	a.apply(t, dataplane.PutFlow{Flow: first.Flow, Path: other})
	for f := range a.Flows() {
		if f.Flow == first.Flow && (f.Path != other || !f.CreatedAt.Equal(first.CreatedAt)) {
			t.Errorf("%+v, was %+v", f, first)
		}
	}
	mixed, twice := first.Flow, lisp.Path{RLOC: other.RLOC}
	mixed.Source = lisp.EIDFromAddr(siteAddress6(0, 1))
	mixed.Destination = lisp.EIDFromAddr(siteAddress4(0, 1))
	twice.RLOC = lisp.RLOC{}
	for _, c := range []struct {
		operation dataplane.Operation
		want      error
	}{
		{dataplane.PutFlow{Flow: mixed, Path: other}, dataplane.ErrInvalid},
		{dataplane.PutFlow{Flow: lisp.Flow{}, Path: other}, dataplane.ErrInvalid},
		{dataplane.PutFlow{Flow: first.Flow, Path: twice}, dataplane.ErrInvalid},
		{dataplane.DeleteFlow{Flow: first.Flow.Reverse()}, dataplane.ErrNotFound},
		{dataplane.DeleteFlow{Flow: lisp.Flow{}}, dataplane.ErrNotFound},
	} {
		if errs := a.Apply(c.operation); len(errs) != 1 || !errors.Is(errs[0], c.want) {
			t.Errorf("%+v: %v, want %v", c.operation, errs, c.want)
		}
	}
	bound := &a.store.Changed.Numbers.Bindings
	*bound += dataplane.MaxFlows - 4 // as if there were so many
	for _, o := range []dataplane.PutFlow{{Flow: first.Flow, Path: other}, {Flow: first.Flow.Reverse(), Path: other}} {
		if errs := a.Apply(o); errors.Is(errors.Join(errs...), dataplane.ErrFull) != (o.Flow != first.Flow) {
			t.Errorf("flow %v in a full table: %v", o.Flow, errs)
		}
	}
	*bound -= dataplane.MaxFlows - 4
	a.apply(t, dataplane.DeleteFlow{Flow: first.Flow}, dataplane.Flush{MapCache: true, Database: true})
	if n := a.store.Bindings().Count(); n != 3 {
		t.Errorf("%d flows are bound, want 3", n)
	}
	a.apply(t, dataplane.Flush{Flows: true})
	for f := range a.Flows() {
		t.Errorf("%+v is still bound", f)
	}
	if n := a.store.Bindings().Count(); n != 0 {
		t.Errorf("programs know of %d flows", n)
	}
}

// TestBoundFlowsWithoutPath: one whose path cannot be read ends, and hides no other.
func TestBoundFlowsWithoutPath(t *testing.T) {
	t.Parallel()
	a := newLinks(t).open(t, 0, Options{})
	a.apply(t, boundFlows()...)
	bindings := a.store.Map(abi.MapBindings)
	var key abi.BindingKey
	var value abi.Binding
	iterator := bindings.Iterate()
	if !iterator.Next(&key, &value) {
		t.Fatal(iterator.Err())
	}
	for _, broken := range []uint8{0, lisp.MaxHops + 1} {
		other := key
		other.Ports ^= uint32(1 + broken)
		value.Hops[0] = broken
		must(t, bindings.Put(other, value))
		pair := other
		pair.Ports, pair.Protocol = 0, 0
		var flows uint32
		must(t, a.store.Map(abi.MapBoundPairs).Lookup(pair, &flows))
		must(t, a.store.Map(abi.MapBoundPairs).Put(pair, flows+1))
		a.store.Changed.Numbers.Bindings++
	}
	expectBoundFlows(t, a.Engine)
	expectBoundFlows(t, a.Engine)
}
