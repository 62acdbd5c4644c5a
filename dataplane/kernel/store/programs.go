// SPDX-License-Identifier: Apache-2.0

// This file loads the programs to use the maps.

package store

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"loci/dataplane/kernel/abi"
)

// Programs loads the programs to use the maps.
func (s *Store) Programs(decapFlags bool) (*abi.TCPrograms, error) {
	spec := s.Spec.Copy()
	if decapFlags {
		if err := spec.Variables[abi.VarDecapL3Flags].Set(uint32(1)); err != nil {
			return nil, fmt.Errorf("preparing the BPF programs: %w", err)
		}
	}
	if err := spec.Variables[abi.VarMappingLimit].Set(uint32(len(s.Records))); err != nil {
		return nil, fmt.Errorf("preparing the BPF programs: %w", err)
	}
	var programs abi.TCPrograms
	if err := spec.LoadAndAssign(&programs, s.sharing(spec)); err != nil {
		return nil, fmt.Errorf("loading the BPF programs: %w", err)
	}
	return &programs, nil
}

// XdpProgram loads the programs of the XDP hook to use the same maps, and returns the
// one to attach. A program of an earlier process that is attached calls the new ones
// from now on, which the layout that both have allows; the map keeps them loaded.
func (s *Store) XdpProgram() (*ebpf.Program, error) {
	spec, err := abi.LoadXDP()
	if err != nil {
		return nil, fmt.Errorf("reading the BPF object for XDP: %w", err)
	}
	if err := spec.Variables[abi.VarMappingLimit].Set(uint32(len(s.Records))); err != nil {
		return nil, fmt.Errorf("preparing the XDP programs: %w", err)
	}
	var programs abi.XDPPrograms
	if err := spec.LoadAndAssign(&programs, s.sharing(spec)); err != nil {
		return nil, fmt.Errorf("loading the XDP programs: %w", err)
	}
	defer programs.LispXdpCore.Close()
	defer programs.LispXdpSite.Close()
	defer programs.LispXdpSets.Close()
	behind := []*ebpf.Program{abi.XDPCore: programs.LispXdpCore, abi.XDPSite: programs.LispXdpSite, abi.XDPSets: programs.LispXdpSets}
	for place, program := range behind {
		if err := s.maps[abi.MapXDPPrograms].Put(uint32(place), program); err != nil {
			return nil, errors.Join(fmt.Errorf("joining the XDP programs: %w", err), programs.LispXdp.Close())
		}
	}
	return programs.LispXdp, nil
}

// sharing makes programs use our maps, whose sizes are those that count.
func (s *Store) sharing(spec *ebpf.CollectionSpec) *ebpf.CollectionOptions {
	replacements := map[string]*ebpf.Map{}
	for name, m := range spec.Maps {
		if own, ok := s.maps[name]; ok {
			replacements[name], m.MaxEntries = own, own.MaxEntries()
		}
	}
	return &ebpf.CollectionOptions{MapReplacements: replacements}
}
