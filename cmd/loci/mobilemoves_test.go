// SPDX-License-Identifier: Apache-2.0

package main_test

// What moves of a mobile node look like to the Map-Server. Real daemons, real packets.

import (
	"context"
	"slices"
	"strings"
	"testing"

	"loci/daemon/api"
)

// registrationsOf are those of a mobile node, by EID.
func (n *lispNetwork) registrationsOf(ctx context.Context) map[string][]api.Registration {
	list, _ := n.client("ms").Registrations(ctx) // asked again where it does not answer
	found := map[string][]api.Registration{}
	for _, eid := range []string{mobile4.String() + "/32", mobile6.String() + "/128"} {
		for _, r := range list {
			if r.EIDPrefix.String() == eid {
				found[eid] = append(found[eid], r)
			}
		}
	}
	return found
}

// awaitOneRegistrant waits until a mobile node is registered from an address, by an RTR or, where that is empty,
// directly, and fails the test if it is registered otherwise beside it.
func (n *lispNetwork) awaitOneRegistrant(from, rtr string) {
	n.t.Helper()
	isThis := func(r api.Registration) bool { return strings.HasPrefix(r.ETR, from+":") && r.RTR == rtr }
	var found map[string][]api.Registration
	n.await("the mobile node is registered from "+from, func(ctx context.Context) bool {
		found = n.registrationsOf(ctx)
		for _, list := range found {
			if !slices.ContainsFunc(list, isThis) {
				return false
			}
		}
		return len(found) == 2
	})
	for eid, list := range found {
		if len(list) != 1 {
			n.t.Errorf("%s has %d registrants: %+v", eid, len(list), list)
		}
	}
}

// TestMobileNodeIsOneRegistrant: a node without an xTR-ID in its configuration replaces what it registered elsewhere,
// also after a restart.
func TestMobileNodeIsOneRegistrant(t *testing.T) {
	for _, protocol := range []string{"auto", "off"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel() // it mostly waits
			n := mobileNetwork(t, "user")
			n.run("ms", n.mobileMappingSystem())
			n.run("mn", strings.Replace(n.mobileNode("default-route: true"), "etr:\n", "etr:\n  nat-traversal: {protocol: "+protocol+"}\n", 1))
			n.awaitOneRegistrant("172.16.1.2", "")
			n.disconnectMobile("wlan0")
			n.connectMobile("wwan0", 5)
			n.awaitOneRegistrant("172.16.5.2", "")
			n.kill("mn")
			n.disconnectMobile("wwan0")
			n.connectMobile("wlan0", 1)
			n.start("mn")
			n.awaitOneRegistrant("172.16.1.2", "")
			if kinds := n.problemKinds("ms"); len(kinds) > 0 {
				t.Errorf("problems: %v", kinds)
			}
		})
	}
}
