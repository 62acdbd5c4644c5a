// SPDX-License-Identifier: Apache-2.0

package daemon

// The end of a daemon, and of a start that failed.

import (
	"context"
	"errors"
	"time"

	"loci/dataplane"
)

// stopTimeout bounds the removal of the data plane on a clean stop.
const stopTimeout = 10 * time.Second

// release gives back what a clean stop gives back. The kernel goes on forwarding
// unless the user asked for an end of that.
func (d *daemon) release() error {
	if d.engine == nil {
		return nil
	}
	if d.stopServing != nil {
		d.stopServing()
	}
	if d.routed != nil && !d.options.DetachOnStop {
		d.routed.Settle()
	}
	return closePlane(d.engine, d.nat, d.options.DetachOnStop || d.routed != nil && d.InForce().IsMobile())
}

// closePlane closes the data plane, which the kernel goes on with, or detaches it. A mobile node's host has its own
// network back in any case: what Loci led into LISP leaves natively.
func closePlane(engine dataplane.Plane, nat *translation, detach bool) error {
	if !detach {
		return engine.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return errors.Join(nat.end(), engine.Detach(ctx))
}

// abandon undoes a start that failed half-way.
func (d *daemon) abandon() (err error) {
	if d.socket != nil {
		err = d.socket.Close()
	}
	d.served.Drop()
	if d.sockets != nil {
		d.sockets.Close()
	}
	if d.stopServing != nil {
		d.stopServing()
	}
	if d.engine != nil {
		err = errors.Join(err, closePlane(d.engine, d.nat, d.routed != nil && d.InForce().IsMobile()))
	}
	if d.store != nil {
		err = errors.Join(err, d.store.Close())
	}
	return err
}
