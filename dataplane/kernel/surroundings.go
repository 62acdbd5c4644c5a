// SPDX-License-Identifier: Apache-2.0

// This file follows what the kernel does not tell of by itself: rules and policies
// that routes depend on, and what others put at interfaces. It looks once a second, and lets tables shrink then.

package kernel

import (
	"slices"
	"time"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/nexthop"
)

const surroundingsInterval = time.Second

// programFlags are the flags of the programs' settings.
func (e programSettings) programFlags(s dataplane.Settings) (flags uint32) {
	if slices.ContainsFunc(s.Interfaces, func(i dataplane.Interface) bool { return i.Forwarding == dataplane.ForwardingStack }) {
		flags |= abi.SettingAnyStack
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.byFlow {
		flags |= abi.SettingRoutesByFlow
	}
	return flags
}

// lookAtRoutes finds out whether routes look at flows; when that cannot be told, they
// are taken to. It reports whether that is news.
func (e programSettings) lookAtRoutes() bool {
	byFlow, err := nexthop.RoutesByFlow(e.space)
	if err != nil {
		e.log.Debug("it cannot be told what routes depend on", "error", err)
		byFlow = true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	news := e.byFlow != byFlow
	e.byFlow = byFlow
	return news
}

// watchSurroundings looks again and again until the engine ends.
func (e *Engine) watchSurroundings() {
	ticker := time.NewTicker(surroundingsInterval)
	defer ticker.Stop()
	for {
		select {
		case <-e.stop:
			return
		case <-ticker.C:
		}
		if (programSettings{e}).lookAtRoutes() {
			e.putProgramSettings()
		}
		if e.interfaces.ShortcutsDiffer() {
			e.resync()
		}
		e.shrinkInTime()
	}
}

func (e *Engine) putProgramSettings() {
	e.changing.Lock()
	defer e.changing.Unlock()
	if e.closed {
		return
	}
	if err := e.store.PutSettings((programSettings{e}).settingsOf(e.settings)); err != nil {
		e.log.Error("the programs cannot be told what routes depend on", "error", err)
	}
}

// shrinkInTime lets a table become small that was kept because it grew, where no entry goes any more. That stores roots, whose places
// are also looked for while programs are told of interfaces: during any other change it is left for the next time.
func (e *Engine) shrinkInTime() {
	if !e.changing.TryLock() {
		return
	}
	defer e.changing.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.tables.Shrink()
	}
}
