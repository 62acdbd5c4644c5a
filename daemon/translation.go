// SPDX-License-Identifier: Apache-2.0

package daemon

// LISP-NAT, as plan and engine need it.

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"loci/config"
	"loci/daemon/api"
	"loci/daemon/events"
	"loci/daemon/lispnat"
	"loci/daemon/plan"
	"loci/dataplane"
)

// translation is LISP-NAT of a data plane that is this process's; nil in others.
type translation struct {
	*lispnat.Translator
	chosen *engineState
}

// An earlier run may have left a table beside the LISP interface.
func newTranslation(lispInterface string, chosen *engineState, hub *events.Hub, log *slog.Logger) *translation {
	restored := func(at time.Time) {
		const reason = "the table of LISP-NAT was removed or changed by someone else"
		hub.Publish(api.Event{At: at, Kind: "translation-restored", Reason: reason})
	}
	return &translation{Translator: lispnat.New(lispInterface, log, restored), chosen: chosen}
}

// follow translates as a plan says. An error is logged and shown, and does not keep the rest from working.
func (t *translation) follow(p plan.Plan) {
	if t == nil {
		return
	}
	engine, _, _ := t.chosen.DataPlane()
	spec := lispnat.SpecOf(p.Config, engine == string(config.EngineKernel))
	if spec != nil {
		spec.RLOCs = p.RLOCs
		for _, i := range p.Interfaces {
			if i.Side == dataplane.SideSite && !slices.Contains(spec.Sites, i.Name) {
				spec.Sites = append(spec.Sites, i.Name)
			}
		}
	}
	_ = t.Follow(spec) // it is noted, and tried again
}

// runIn runs in a group until the context ends.
func (t *translation) runIn(group *sync.WaitGroup, ctx context.Context) {
	if t != nil {
		group.Go(func() { t.Run(ctx) })
	}
}

// translator is nil where there is none.
func (t *translation) translator() *lispnat.Translator {
	if t == nil {
		return nil
	}
	return t.Translator
}

// end removes what translates.
func (t *translation) end() error {
	if t == nil {
		return nil
	}
	return t.Remove()
}
