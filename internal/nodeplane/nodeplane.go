// SPDX-License-Identifier: Apache-2.0

// Package nodeplane converts between what a Node has (package control) and what a data plane has (package dataplane):
// the same entries and states, in types of their own, as neither package knows the other. It changes neither.
package nodeplane

import (
	"iter"

	"loci/control"
	"loci/dataplane"
)

// Database are the own mappings that a data plane kept, as an earlier run announced them.
func Database(plane dataplane.Plane) iter.Seq[control.DatabaseMapping] {
	return func(yield func(control.DatabaseMapping) bool) {
		for e := range plane.Database() {
			if !yield(control.DatabaseMapping{Prefix: e.Prefix, Locators: e.Locators, Version: e.Version}) {
				return
			}
		}
	}
}

// NodeEntry is a map-cache entry as a Node takes it.
func NodeEntry(e dataplane.MapCacheEntry) control.MapCacheEntry {
	return control.MapCacheEntry{
		Mapping: e.Mapping, Static: e.Static, Gleaned: e.Gleaned, Stale: e.Stale, ByNAT: e.ByNAT, Registered: e.Registered,
		CreatedAt: e.CreatedAt, ExpiresAt: e.ExpiresAt,
	}
}

// PlaneEntry is a map-cache entry as a data plane takes it.
func PlaneEntry(e control.MapCacheEntry) dataplane.MapCacheEntry {
	return dataplane.MapCacheEntry{
		Mapping: e.Mapping, Static: e.Static, Gleaned: e.Gleaned, Stale: e.Stale, ByNAT: e.ByNAT, Registered: e.Registered,
		CreatedAt: e.CreatedAt, ExpiresAt: e.ExpiresAt,
	}
}

// NodeFlow is a flow that a data plane has bound, as a Node takes it.
func NodeFlow(f dataplane.FlowEntry) control.BoundFlow {
	return control.BoundFlow{Flow: f.Flow, Path: f.Path, CreatedAt: f.CreatedAt, LastUsedAt: f.LastUsedAt}
}

// planeStates are the data plane's words for the states that a Node tells.
var planeStates = map[control.LocatorState]dataplane.LocatorState{
	control.LocatorUp: dataplane.LocatorUp, control.LocatorHeard: dataplane.LocatorHeard,
	control.LocatorUnconfirmed: dataplane.LocatorUnconfirmed, control.LocatorDown: dataplane.LocatorDown,
}

// PlaneState is the data plane's word for a state that a Node tells.
func PlaneState(s control.LocatorState) dataplane.LocatorState { return planeStates[s] }

// NodeState is the Node's word for a state that the data plane has.
func NodeState(s dataplane.LocatorState) control.LocatorState {
	for word, state := range planeStates {
		if state == s {
			return word
		}
	}
	return control.LocatorUp
}
