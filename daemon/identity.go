// SPDX-License-Identifier: Apache-2.0

package daemon

// The xTR-ID of a router that has none in its configuration.

import (
	"cmp"
	"log/slog"

	"loci/config"
	"loci/daemon/plan"
	"loci/daemon/store"
)

// identity is what a router registers with by an RTR, and a mobile node always: a Map-Server knows routers without an
// xTR-ID by their address.
type identity struct{ xtrID [16]byte }

// read reads or makes the xTR-ID of a router that registers. It stands beside the nonces of Map-Registers, which
// outlive a boot, or beside the control socket.
func (i *identity) read(c *config.Config, log *slog.Logger) {
	if c.ETR == nil || c.RouterID != nil || i.xtrID != [16]byte{} {
		return
	}
	path := cmp.Or(c.NonceFile(), c.Control.Socket) + ".xtr-id"
	id, err := store.XTRID(path, new(random).read)
	if err != nil {
		log.Info("the xTR-ID is another one after a restart", "file", path, "error", err)
	}
	i.xtrID = id
}

// give has the plan of a mobile node register with the xTR-ID. Who did by the current plan goes on: without it, a
// Map-Server would take the router for another one.
func (i *identity) give(made, current plan.Plan, log *slog.Logger) plan.Plan {
	i.read(made.Config, log)
	if made.Config.MobileNode == nil && current.Host.XTRID == [16]byte{} {
		return made
	}
	return made.WithXTRID(i.xtrID)
}
