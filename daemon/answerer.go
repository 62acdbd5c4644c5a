// SPDX-License-Identifier: Apache-2.0

package daemon

// What the control socket is answered by.

import (
	"context"
	"time"

	"loci/control"
	"loci/daemon/answers"
	"loci/daemon/api"
	"loci/daemon/eventloop"
	"loci/daemon/hostnet"
	"loci/daemon/metrics"
)

// answerer answers at the control socket; only a reload changes anything.
type answerer struct {
	*answers.Answers
	d *daemon
}

func (a answerer) Reload(ctx context.Context) (api.Reload, error) {
	done, err := a.d.reload(ctx)
	return done, problemOf(a.d.options.ConfigFile, err)
}

// Times implements metrics.Source.
func (a answerer) Times(ctx context.Context) (metrics.Times, error) {
	return eventloop.Ask(ctx, a.d.loop, func(node *control.Node, _ time.Time) metrics.Times {
		return metrics.Times{Resolutions: node.ResolutionTimes(), Registrations: node.RegistrationTimes()}
	})
}

// answerer is what the control socket is answered by.
func (d *daemon) answerer(watch *hostnet.Watch) answerer {
	return answerer{d: d, Answers: &answers.Answers{
		ConfigFile: d.options.ConfigFile, StartedAt: d.startedAt, Remote: d.options.Planes == PlanesControl,
		Loop: d.loop, Sockets: d.sockets, Handed: d.handed, Plane: d.plane, Engine: d.engine, Worker: d.worker, Journal: d.store,
		Watch: watch, DataPaths: d.paths, Translator: d.nat.translator(), State: d,
	}}
}
