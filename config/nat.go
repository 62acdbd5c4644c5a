// SPDX-License-Identifier: Apache-2.0

package config

// NAT traversal (draft-ermagan-lisp-nat-traversal): a node that finds NATs, the RTRs that a Map-Server offers it, and
// what an RTR does for it.

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"loci/config/source"
	"loci/lisp"
)

// NATProtocol is how a node finds NATs and gets through them.
type NATProtocol string

// The protocols.
const (
	NATAuto    NATProtocol = "auto"    // that which is answered
	NATErmagan NATProtocol = "ermagan" // draft-ermagan-lisp-nat-traversal
	NATSimple  NATProtocol = "simple"  // draft-farinacci-lisp-lispers-net-nat, lispers.net's
	NATOff     NATProtocol = "off"
)

// RTRUse says when a node registers by an RTR.
type RTRUse string

// The uses of RTRs.
const (
	RTRBehindNAT RTRUse = "behind-nat"
	RTRAlways    RTRUse = "always"
)

// NATTraversal configures it at a node.
type NATTraversal struct {
	Protocol  NATProtocol   `key:"protocol" oneof:"auto,ermagan,simple,off"`
	RTR       RTRUse        `key:"rtr" oneof:"behind-nat,always"`
	Keepalive time.Duration `key:"keepalive" unit:"seconds" range:"0s..10m"` // 0: none are sent
}

// RTRRef is an RTR that a Map-Server offers to nodes behind NATs.
type RTRRef struct {
	Address netip.Addr `key:"address" required:"true"`
	Keys    []Key      `key:"authentication-keys" max:"16"` // the first signs
}

// NATRelay configures an RTR for nodes behind NATs.
type NATRelay struct {
	MapServers  []NATMapServer   `key:"map-servers" required:"true" max:"16"`
	InstanceID  *lisp.InstanceID `key:"instance-id"`             // of the nodes; nil: any
	EIDPrefixes PolicyEIDs       `key:"eid-prefixes" max:"4096"` // in Instance-ID 0, and for any; none: all
	SimpleNAT   bool             `key:"simple-nat"`              // routers of lispers.net as well
}

// NATMapServer is a Map-Server that Map-Registers are relayed to.
type NATMapServer struct {
	Address      netip.Addr   `key:"ms-address" required:"true"`
	Keys         []Key        `key:"authentication-keys" max:"16"`
	DraftVersion DraftVersion `key:"draft-version" oneof:"new,old"`
}

// DraftVersion is the form in which RTR and Map-Server speak to each other.
type DraftVersion string

// The forms.
const (
	DraftNew DraftVersion = "new" // in ECMs, since draft-ermagan-lisp-nat-traversal-04
	DraftOld DraftVersion = "old" // without
)

func (m *NATMapServer) setDefaults() { m.DraftVersion = DraftNew }

func (t *NATTraversal) setDefaults() {
	*t = NATTraversal{Protocol: NATAuto, RTR: RTRBehindNAT, Keepalive: 25 * time.Second}
}

const leastNATKeepalive = time.Second

func validateNAT(c *Config) {
	if c.ETR != nil {
		validateNATTraversal(c, c.ETR.NATTraversal)
	}
	if c.MapServer != nil {
		seen := map[netip.Addr]bool{}
		for i, r := range c.MapServer.RTRs {
			validateNATAddress(c, r.Address, fmt.Sprintf("map-server.rtrs[%d].address", i), seen)
		}
	}
	if c.RTR != nil && c.RTR.NATTraversal == nil && len(c.RTR.Relay) == 0 {
		c.fail("rtr", "rtr relays nothing", "want relay: [{eid-prefixes: [PREFIX]}] or nat-traversal: {map-servers: [{ms-address: ADDRESS}]}")
	}
	if c.RTR != nil && c.RTR.NATTraversal != nil {
		seen := map[netip.Addr]bool{}
		for i, m := range c.RTR.NATTraversal.MapServers {
			validateNATAddress(c, m.Address, fmt.Sprintf("rtr.nat-traversal.map-servers[%d].ms-address", i), seen)
		}
		validateNATEIDs(c, c.RTR.NATTraversal.EIDPrefixes)
		if c.RTR.NATTraversal.SimpleNAT && len(c.RTR.Relay) == 0 {
			c.fail("rtr.nat-traversal.simple-nat", "simple-nat: nothing says which EID-Prefixes these routers have, and nothing is relayed for them",
				"add rtr.relay: [{eid-prefixes: [PREFIX]}] with those of their sites")
		}
	}
}

func validateNATTraversal(c *Config, t NATTraversal) {
	if t.Keepalive > 0 && t.Keepalive < leastNATKeepalive {
		c.fail("etr.nat-traversal.keepalive", "keepalive: less than a second", "want 1s or more, or 0s for none: the bindings of most NATs last for 30s")
	}
}

func validateNATAddress(c *Config, a netip.Addr, path string, seen map[netip.Addr]bool) {
	switch name := source.Label(path); {
	case seen[a]:
		c.fail(path, fmt.Sprintf("%s: %s stands here twice", name, a), "remove one of the two")
	case a.IsLoopback() || a.IsMulticast() || a.IsUnspecified():
		c.fail(path, fmt.Sprintf("%s: %s is no address that nodes can send to", name, a), "want the address of a router in the core")
	}
	seen[a] = true
}

// validateNATEIDs is for the EID-Prefixes that routers behind NATs may register.
func validateNATEIDs(c *Config, eids PolicyEIDs) {
	for i, e := range eids {
		path := fmt.Sprintf("rtr.nat-traversal.eid-prefixes[%d]", i)
		switch {
		case !e.EID().IsIP():
			c.fail(path, fmt.Sprintf("eid-prefixes: %s: packets of such EIDs are not forwarded", e), "want IPv4 and IPv6 prefixes")
		case slices.Contains(eids[:i], e):
			c.fail(path, fmt.Sprintf("eid-prefixes: %s stands here twice", e), "remove one of the two")
		}
	}
}
