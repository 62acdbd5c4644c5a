// SPDX-License-Identifier: Apache-2.0

// This file follows what the kernel does not tell of by itself: rules and policies
// that routes depend on, and what others put at interfaces. It looks once a second, and lets tables shrink then.

package kernel

import (
	"time"
)

const surroundingsInterval = time.Second

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
		if e.programs.lookAtRoutes() {
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
	if err := e.programs.putRecord(e.entries.Settings()); err != nil {
		e.log.Error("the programs cannot be told what routes depend on", "error", err)
	}
}

// shrinkInTime has tables become small; during any other change it is left for the next time.
func (e *Engine) shrinkInTime() {
	if !e.changing.TryLock() {
		return
	}
	defer e.changing.Unlock()
	e.entries.Shrink()
}
