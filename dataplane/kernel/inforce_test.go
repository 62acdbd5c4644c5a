// SPDX-License-Identifier: Apache-2.0

// What an engine has in force, as the kernel shows it: programs at hooks, and what they know of interfaces.

package kernel

import (
	"errors"
	"iter"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/lpm"
	"loci/dataplane/kernel/tables"
	"loci/lisp"
)

// program is a program that is attached.
func (r *router) program(t testing.TB, name string) *ebpf.Program {
	t.Helper()
	if program := r.attached[name]; program != nil {
		return program
	}
	state, err := r.Datapath()
	must(t, err)
	for _, p := range state.Programs {
		if p.Name != name {
			continue
		}
		program, err := ebpf.NewProgramFromID(ebpf.ProgramID(p.ID))
		must(t, err)
		r.attached[name] = program
		return program
	}
	t.Fatalf("%s is attached nowhere", name)
	return nil
}

// closePrograms lets go of programs that a test has run.
func (r *router) closePrograms() {
	for _, program := range r.attached {
		program.Close()
	}
	r.attached = map[string]*ebpf.Program{}
}

// recordOf is what programs know of an interface where they are attached, nothing when it is none of theirs.
func (r *router) recordOf(t testing.TB, name string) (record abi.Interface, known bool) {
	t.Helper()
	link, err := r.ns.Netlink().LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return record, false
	}
	must(t, err)
	return r.interfaces.RecordOf(uint32(link.Attrs().Index))
}

// records are the entries in force, by index.
func (e *Engine) records() iter.Seq2[uint32, *abi.Mapping] {
	return func(yield func(uint32, *abi.Mapping) bool) {
		for index := range e.store.Records {
			if record := &e.store.Records[index]; tables.InForce(record) && !yield(uint32(index), record) {
				return
			}
		}
	}
}

// entryOf finds the record of an entry, nil when there is none.
func (e *Engine) entryOf(t testing.TB, kind uint8, prefix lisp.Prefix) (index uint32, record *abi.Mapping) {
	t.Helper()
	key, err := lpm.KeyOf(kind, prefix)
	must(t, err)
	for index, record := range e.records() {
		if tables.KeyOf(record) == key {
			return index, record
		}
	}
	return 0, nil
}
