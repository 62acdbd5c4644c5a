// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"testing"

	"loci/control"
	"loci/dataplane/model"
)

// TestPeersAreLocators of no mapping: both families are listed, and none is a problem.
func TestPeersAreLocators(t *testing.T) {
	a := answersTo(t, t.Context(), "interfaces: {site: [lan0], core: [wan0]}\nitr: {map-resolvers: [192.0.2.1], rloc-probing: {peers: [198.51.100.1, \"2001:db8::1\"]}}\netr: {local-eids: [{eid: 10.1.0.0/16}]}\n", func(*control.Node) {})
	engine := model.New(model.Options{})
	a.Plane, a.Engine = engine, engine
	list, err := a.Locators(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]string{}
	for _, l := range list {
		if l.Peer {
			reasons[l.RLOC.String()] = l.State + " " + l.Reason
			if l.Local || l.Probes == nil || l.EIDPrefixes != 0 || l.DataPath != nil {
				t.Errorf("%+v", l)
			}
		}
	}
	if len(reasons) != 2 || reasons["198.51.100.1"] != "unknown awaits-reply" ||
		reasons["2001:db8::1"] != "unknown not-probed" {
		t.Errorf("%v", reasons)
	}
}
