// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/netip"
	"time"

	"loci/lisp"
)

// What `loci show interfaces` tells.

// Interfaces tells what this host has of what the configuration names.
type Interfaces struct {
	Interfaces []InterfaceState `json:"interfaces"`
	RLOCs      []OwnRLOC        `json:"rlocs"`
	Waiting    []string         `json:"waiting"` // for interfaces and addresses that are not there yet
}

// Interface is an interface that the data plane watches.
type Interface struct {
	Name       string          `json:"name"`
	Side       string          `json:"side"`
	InstanceID lisp.InstanceID `json:"instance_id"`
	VLAN       uint16          `json:"vlan"` // its tag at the interface

	// Forwarding is "fast", or "stack" when the host's IP forwarding sees inner packets.
	Forwarding string `json:"forwarding"`

	// Hook is where packets are taken, "tc" or "xdp"; null while the interface is not there.
	Hook        string `json:"hook"`
	HookReason  string `json:"hook_reason"`
	HookWarning string `json:"hook_warning"`
}

// InterfaceState is an interface of the configuration as the host has it.
type InterfaceState struct {
	Interface
	Present   bool         `json:"present"`
	Up        bool         `json:"up"` // set up, with a carrier
	Addresses []netip.Addr `json:"addresses"`
	Gateways  []netip.Addr `json:"gateways"` // of default routes by it
}

// OwnRLOC is an RLOC of this router, and whether others are told that it is reachable.
type OwnRLOC struct {
	RLOC      lisp.RLOC `json:"rloc"`
	Interface string    `json:"interface"` // none has it now
	State     string    `json:"state"`
	Reason    string    `json:"reason"`
	ChangedAt time.Time `json:"changed_at"`
}

// Interfaces asks for the interfaces and own RLOCs.
func (c *Client) Interfaces(ctx context.Context) (i Interfaces, err error) {
	return i, c.get(ctx, PathInterfaces, &i)
}
