// SPDX-License-Identifier: Apache-2.0

// This file says at which hook of the kernel an engine works, and what it tells of
// that. It never chooses one.

package dataplane

import (
	"fmt"
	"time"

	"loci/lisp"
)

// Hook says where an engine takes packets out of the kernel's way. Engines that
// have no such choice ignore it.
type Hook uint8

// The hooks. HookTC sees GSO packets, so that TCP keeps its offloads; HookXDP
// comes before the kernel makes a packet of a frame, and leaves to HookTC what it
// does not do itself. HookAuto is HookXDP where it costs nothing.
const (
	HookAuto Hook = iota
	HookTC
	HookXDP
)

var hookNames = [...]string{HookAuto: "auto", HookTC: "tc", HookXDP: "xdp"}

// String names the hook as configuration does.
func (h Hook) String() string {
	if int(h) < len(hookNames) {
		return hookNames[h]
	}
	return fmt.Sprintf("hook %d", uint8(h))
}

// ForeignReporter is a data plane that others change as well.
type ForeignReporter interface {
	// ForeignChanges lists the EID-Prefixes whose mappings others have changed since this process last did, in their order; the
	// zero Prefix for all of them. more are changes beyond those listed.
	ForeignChanges() (list []ForeignChange, more uint64)
}

// ForeignChange is one of them.
type ForeignChange struct {
	Prefix lisp.Prefix
	At     time.Time
}

// InterfaceReporter is an engine that can tell what it does at its interfaces.
type InterfaceReporter interface {
	// InterfaceStates tells it for all interfaces of the settings, in their order.
	InterfaceStates() []InterfaceState
}

// InterfaceState is what an engine does at an interface of its settings.
type InterfaceState struct {
	Name    string
	Present bool   // the interface is there
	Hook    Hook   // in force: HookTC or HookXDP
	Reason  string // why this one
	Warning string // what the user should know, such as that the wanted hook is not in force
}
