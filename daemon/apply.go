// SPDX-License-Identifier: Apache-2.0

package daemon

// Applying a plan to the Node and the data plane, whole or not at all.

import (
	"context"
	"errors"
	"time"

	"loci/control"
	"loci/daemon/eventloop"
	"loci/daemon/plan"
	"loci/dataplane"
)

// apply applies a plan, or goes back to the current one.
func (d *daemon) apply(ctx context.Context, current, fresh plan.Plan) error {
	if err := d.applyPlane(fresh); err != nil {
		return errors.Join(err, d.applyPlane(current))
	}
	if err := d.configureNode(ctx, fresh); err != nil {
		return errors.Join(err, d.applyPlane(current))
	}
	return nil
}

// configureNode applies the control plane's part of a plan, whole or not at all.
// It is made ready outside the loop, which takes as long as it is.
func (d *daemon) configureNode(ctx context.Context, fresh plan.Plan) error {
	inForce, err := eventloop.Ask(ctx, d.loop, func(node *control.Node, _ time.Time) *control.Prepared { return node.Current() })
	if err != nil {
		return err
	}
	prepared, err := control.Prepare(fresh.Control, inForce)
	if err != nil {
		return err
	}
	_, err = eventloop.Ask(ctx, d.loop, func(node *control.Node, now time.Time) struct{} {
		node.Apply(now, prepared)
		d.handed.Configure(plan.HandoverOf(fresh))
		return struct{}{}
	})
	return err
}

// applyPlane applies the data plane's part of a plan, and has policy routing follow its configuration.
func (d *daemon) applyPlane(p plan.Plan) error {
	if d.plane == nil {
		return nil
	}
	err := errors.Join(d.plane.Apply(dataplane.SetSettings{Settings: p.Settings})...)
	if err != nil || d.routed == nil {
		return err
	}
	return d.routed.Reconfigure(p.Config, p.Host.View)
}

// setCurrent notes the plan that the daemon works by now. The caller holds reloading, or is alone.
func (d *daemon) setCurrent(p plan.Plan) {
	d.memory.Owned = p.RLOCs
	if d.madeFor == 0 {
		d.madeFor = p.MappingLimit()
	}
	d.plan.Store(&p)
}
