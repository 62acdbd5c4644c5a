// SPDX-License-Identifier: Apache-2.0

package control

// Clauses of the RFCs that no larger test meets on its way.

import (
	"slices"
	"testing"
	"time"

	"loci/control/internal/maprequest"
	"loci/wire"
)

// A Map-Request that names no ITR-RLOC cannot be answered.
//
// Shows RFC 9301 s.5.3 (3).
func TestMapRequestWithoutITRRLOCIsDropped(t *testing.T) {
	_, x1, _, _ := twoSites(t)
	m := wire.MapRequest{Nonce: 1, ITRRLOCs: []wire.Address{wire.NoAddress{}},
		Records: []wire.RequestRecord{{MaskLen: 32, EID: wire.IPv4{10, 1, 0, 1}}}}
	b, err := m.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	x1.sent = nil
	x1.inject("192.0.2.1:4342", "192.0.2.9:4342", b)
	if len(x1.sent) != 0 {
		t.Errorf("it is answered to %s", x1.sent[0].Remote)
	}
	if got := refusals(x1); !slices.Equal(got, []string{"no-itr-rloc"}) {
		t.Errorf("refused as %v", got)
	}
}

// Shows RFC 9301 s.5.4 (3).
func TestTTLZeroRemovesWhatIsCached(t *testing.T) {
	for _, prefix := range []string{"10.2.0.0/16", "2001:db8:2::/48"} {
		n, x := loneITR(t, Limits{})
		source, destination := "10.1.0.1", "10.2.0.1"
		if prefix != "10.2.0.0/16" {
			source, destination = "2001:db8:1::1", "2001:db8:2::1"
		}
		x.miss(source, destination)
		answerAll(x, positive(prefix, 10))
		x.wantCached(prefix, "192.0.2.9")
		n.run(4 * time.Second)
		x.itr.Requester.Ask(maprequest.Request{Prefix: positive(prefix, 0).Prefix})
		x.drain()
		answerAll(x, positive(prefix, 0))
		x.wantNotCached(prefix)
		if x.itr.Cache.Size() != 0 {
			t.Errorf("%s is still in the map-cache", prefix)
		}
	}
}

// Shows RFC 9301 s.5.4 (10).
func TestProbedBitIsOnlyInProbeReplies(t *testing.T) {
	n, x1, x2 := probedSites(t, "10.2.0.9")
	n.run(30 * time.Second)
	for _, m := range sentMessages[*wire.MapRegister](x2) {
		for _, r := range m.Records {
			if slices.ContainsFunc(r.Locators, func(l wire.LocatorRecord) bool { return l.Probed }) {
				t.Errorf("a Map-Register with the p-bit: %+v", r.Locators)
			}
		}
	}
	for _, m := range sentMessages[*wire.MapRequest](x1) {
		if m.MapReplyRecord != nil && slices.ContainsFunc(m.MapReplyRecord.Locators, func(l wire.LocatorRecord) bool { return l.Probed }) {
			t.Errorf("a Map-Request with the p-bit: %+v", m.MapReplyRecord.Locators)
		}
	}
	if len(sentMessages[*wire.MapRegister](x2)) == 0 || len(sentMessages[*wire.MapRequest](x1)) == 0 {
		t.Error("nothing was looked at")
	}
}

// Shows RFC 9301 s.5.6 (8).
func TestReplayIsTold(t *testing.T) {
	ms := newNetwork(t).add("ms", mapServerConfig("10.1.0.0/16"), "192.0.2.100")
	b := register(t, func(m *wire.MapRegister) { m.Nonce = 9 }, "10.1.2.0/24")
	ms.inject("192.0.2.100:4342", "192.0.2.1:4342", b)
	ms.notices = nil
	ms.inject("192.0.2.100:4342", "192.0.2.1:4342", register(t, func(m *wire.MapRegister) { m.Nonce = 8 }, "10.1.2.0/24"))
	if !slices.ContainsFunc(ms.notices, func(n Notice) bool { return n.Kind == NoticeRegistrationRefused }) {
		t.Errorf("notices are %v", ms.notices)
	}
}
