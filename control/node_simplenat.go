// SPDX-License-Identifier: Apache-2.0

package control

// simple-nat (draft-farinacci-lisp-lispers-net-nat): what the roles have to do with it.

import (
	"loci/control/internal/simplenat"
)

// simpleNAT has a side for each role, which does nothing until it is configured.
type simpleNAT struct {
	server *simplenat.Server
}

func (n *Node) newSimpleNAT() {
	n.simple.server = simplenat.NewServer(n.host)
}

// configureSimpleNAT takes over another configuration of all sides.
func (n *Node) configureSimpleNAT(p *Prepared) {
	n.simple.server.Configure(p.config.MapServer)
}
