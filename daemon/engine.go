// SPDX-License-Identifier: Apache-2.0

package daemon

// The engine of this process's data plane: what there is to say of it, and its change by a reload.

import (
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"

	"loci/config"
	"loci/daemon/plan"
	"loci/daemon/planeworker"
	"loci/daemon/policyroute"
	"loci/daemon/trouble"
	"loci/dataplane"
)

// engineState is what there is to say of the engine that is open, of which the factory made it.
type engineState struct{ chosen atomic.Pointer[chosenEngine] }

// chosenEngine is that of one engine.
type chosenEngine struct {
	name, reason string
	missing      []string // features of the host, with the effect of each
	pinWarning   string   // about the directory for pins as the data plane found it; empty for none
	lost         bool     // none is open any more, for that reason
}

// note notes what there is to say of the engine that a factory opened, and of the directory for pins as it was before that.
func (e *engineState) note(factory EngineFactory, c *config.Config, pinWarning string, log *slog.Logger) {
	chosen := &chosenEngine{missing: factory.Missing(), pinWarning: pinWarning}
	chosen.name, chosen.reason = factory.Chosen()
	if pinWarning != "" {
		log.Warn(pinWarning)
	}
	if w := factory.PassingPins(c.Datapath.PinDirectory); w != "" {
		chosen.pinWarning = w
		log.Warn(w)
	}
	e.chosen.Store(chosen)
}

// change replaces the engine by that of a new plan. routed is nil where the data plane is another process's.
func (e *engineState) change(factory EngineFactory, routed *policyroute.Plane, fresh plan.Plan, log *slog.Logger) error {
	if routed == nil {
		return errors.New("datapath.engine is the other process's, which runs the data plane: restart that: nothing was changed")
	}
	pinWarning, _ := factory.PinTrouble(fresh.Config) // an error is for the factory to judge
	err := routed.Change(func() error { return factory.Change(fresh.Config, fresh.Settings) })
	if errors.Is(err, dataplane.ErrClosed) {
		e.noteLost(err)
	}
	if err != nil {
		return err
	}
	e.note(factory, fresh.Config, pinWarning, log)
	return nil
}

// noteLost notes that no engine is open any more, and why.
func (e *engineState) noteLost(why error) {
	e.chosen.Store(&chosenEngine{name: "none", reason: strings.ReplaceAll(why.Error(), "\n", "; "), lost: true})
}

// lostPlane tells that no engine is open any more.
func (e *engineState) lostPlane() []trouble.Trouble {
	chosen := e.chosen.Load()
	if chosen == nil || !chosen.lost {
		return nil
	}
	return []trouble.Trouble{{
		Kind: trouble.PlaneLost, What: "no data plane is open: " + chosen.reason,
		Effect: "no packet is encapsulated or decapsulated; packets of EIDs are dropped", Remedy: "restart the daemon",
	}}
}

// DataPlane implements answers.State.
func (e *engineState) DataPlane() (name, reason string, missing []string) {
	if chosen := e.chosen.Load(); chosen != nil {
		return chosen.name, chosen.reason, chosen.missing
	}
	return "", "", nil
}

// pinWarnings are about the directory for pins.
func (e *engineState) pinWarnings() []string {
	if chosen := e.chosen.Load(); chosen != nil && chosen.pinWarning != "" {
		return []string{chosen.pinWarning}
	}
	return nil
}

// flowTrouble says that a data plane cannot do what itr.mptcp asks for.
func flowTrouble(plane dataplane.Plane) []trouble.Trouble {
	if plane == nil || planeworker.BindsFlows(plane) {
		return nil
	}
	return []trouble.Trouble{{
		Kind: trouble.PlaneRefused, Subject: "itr.mptcp", What: "the data plane cannot bind flows to paths",
		Effect: "subflows of Multipath TCP share paths by chance",
		Remedy: "set datapath.engine: user, or leave itr.mptcp out",
	}}
}
