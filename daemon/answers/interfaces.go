// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"context"

	"loci/control"
	"loci/daemon/api"
	"loci/daemon/hostnet"
	"loci/dataplane"
)

// What `loci show interfaces` is answered: this host, and what is waited for.

// Interfaces answers `loci show interfaces`.
func (a *Answers) Interfaces(context.Context) (api.Interfaces, error) {
	p := a.State.InForce()
	answer := api.Interfaces{Interfaces: []api.InterfaceState{}, RLOCs: []api.OwnRLOC{}, Waiting: p.Waiting()}
	for _, i := range a.describeInterfaces(p.Interfaces) {
		link, present := p.Host.Link(i.Name)
		answer.Interfaces = append(answer.Interfaces, api.InterfaceState{
			Interface: i,
			Present:   present, Up: link.Up, Addresses: link.Addresses, Gateways: link.Gateways,
		})
	}
	for _, own := range p.Own {
		answer.RLOCs = append(answer.RLOCs, ownRLOCDocument(own))
	}
	return answer, nil
}

func ownRLOCDocument(own hostnet.OwnRLOC) api.OwnRLOC {
	state := control.LocatorDown
	if own.Up {
		state = control.LocatorUp
	}
	return api.OwnRLOC{RLOC: own.RLOC, Interface: own.Link, State: string(state), Reason: string(own.Reason), ChangedAt: own.ChangedAt}
}

// describeInterfaces lists those of the settings, with what the engine says about them, if it
// says anything: one behind a socket does not.
func (a *Answers) describeInterfaces(settings []dataplane.Interface) []api.Interface {
	states := map[string]dataplane.InterfaceState{}
	if engine, ok := a.Engine.(dataplane.InterfaceReporter); ok {
		for _, state := range engine.InterfaceStates() {
			states[state.Name] = state
		}
	}
	var list []api.Interface
	for _, i := range settings {
		list = append(list, interfaceDocument(i, states[i.Name]))
	}
	return list
}

// interfaceDocument is an interface of the settings with what the engine says of it: nothing, or no such interface,
// is the zero state.
func interfaceDocument(i dataplane.Interface, state dataplane.InterfaceState) api.Interface {
	document := api.Interface{
		Name: i.Name, Side: i.Side.String(), InstanceID: i.Instance, VLAN: i.VLAN, Forwarding: i.Forwarding.String(),
	}
	if state.Present {
		document.Hook, document.HookReason, document.HookWarning = state.Hook.String(), state.Reason, state.Warning
	}
	return document
}
