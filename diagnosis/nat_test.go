// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"errors"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"loci/control"
	"loci/daemon/api"
	"loci/lisp"
	"loci/wire"
)

// expectStep fails the test unless a step is that one. A failed one says what to do.
func expectStep(t *testing.T, name string, s Step, outcome Outcome, words string) {
	t.Helper()
	if s.Outcome != outcome || !strings.Contains(s.Detail+s.Reason, words) || (s.Remedy != "") != (outcome == OutcomeFailed) ||
		outcome == OutcomeUnknown && s.Reason == "" {
		t.Errorf("%s: %+v, want %s with %q", name, s, outcome, words)
	}
}

// viewOf is what 192.0.2.SERVER, or 2001:db8::SERVER, saw of port 5000 of an RLOC.
func viewOf(server, seen string) natView {
	v := natView{server: netip.MustParseAddrPort(server), local: netip.MustParseAddrPort("10.0.0.2:5000"), why: "no Info-Reply"}
	if v.server.Addr().Is6() {
		v.local = netip.MustParseAddrPort("[fd00::2]:5000")
	}
	v.daemon.MapServer = server
	if seen != "" {
		v.seen = netip.MustParseAddrPort(seen)
	}
	return v
}

func TestNATIsJudged(t *testing.T) {
	const four, six = "192.0.2.1:4342", "[2001:db8::1]:4342"
	none, byRTR := &api.NAT{}, &api.NAT{RTRs: []api.NATRTR{{Address: netip.MustParseAddr("192.0.2.9")}}}
	for name, c := range map[string]struct {
		server, seen string
		nat          *api.NAT
		isRegistered bool
		outcome      Outcome
		words        string
	}{
		"none":                        {four, "10.0.0.2:5000", none, false, OutcomeOK, "no NAT"},
		"none, IPv6":                  {six, "[fd00::2]:5000", none, false, OutcomeOK, "no NAT"},
		"another port":                {four, "10.0.0.2:5001", byRTR, false, OutcomeOK, "behind a NAT: port 5000 is seen as 10.0.0.2:5001"},
		"another address, IPv6":       {six, "[2001:db8:9::9]:5000", byRTR, false, OutcomeOK, "registered by RTR 192.0.2.9"},
		"no RTR":                      {four, "203.0.113.9:5000", none, false, OutcomeFailed, "registers by no RTR"},
		"the outside address is ours": {four, "203.0.113.9:5000", none, true, OutcomeOK, "must be forwarded"},
		"no answer":                   {six, "", byRTR, false, OutcomeUnknown, "no Info-Reply"},
	} {
		v := viewOf(c.server, c.seen)
		expectStep(t, name, natStep(&v, c.nat, c.isRegistered), c.outcome, c.words)
	}
}

func TestNATMappingIsJudged(t *testing.T) {
	one, silent := viewOf("192.0.2.1:4342", "203.0.113.9:1"), viewOf("192.0.2.3:4342", "")
	for name, c := range map[string]struct {
		views   []natView
		outcome Outcome
		words   string
	}{
		"one answer":      {[]natView{one, silent}, OutcomeUnknown, "takes two"},
		"the same":        {[]natView{one, silent, viewOf("192.0.2.2:4342", "203.0.113.9:1")}, OutcomeOK, "2 Map-Servers see the same"},
		"another port":    {[]natView{one, viewOf("192.0.2.2:4342", "203.0.113.9:2")}, OutcomeOK, "symmetric NAT: 192.0.2.1 sees 203.0.113.9:1, 192.0.2.2 sees 203.0.113.9:2"},
		"another address": {[]natView{one, one, viewOf("192.0.2.2:4342", "203.0.113.8:1")}, OutcomeOK, "symmetric NAT"},
	} {
		expectStep(t, name, natMappingStep(netip.MustParseAddr("10.0.0.2"), c.views), c.outcome, c.words)
	}
}

func TestPortsOfNATAreJudged(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	ago := func(d time.Duration) *time.Time { at := now.Add(-d); return &at }
	left := api.MapServer{Unacknowledged: registersLeft}
	for name, c := range map[string]struct {
		answered *time.Time // the daemon
		seen     string     // the command
		m        api.MapServer
		direct   bool
		up       time.Duration
		outcome  Outcome
		words    string
	}{
		"answered":              {ago(time.Minute), "10.0.0.2:5000", api.MapServer{}, true, time.Hour, OutcomeOK, "answered 1m0s ago"},
		"registered":            {nil, "", api.MapServer{LastNotifyAt: ago(time.Second)}, true, time.Hour, OutcomeOK, "answered 1s ago"},
		"registered by the RTR": {nil, "", api.MapServer{LastNotifyAt: ago(time.Second)}, false, time.Hour, OutcomeUnknown, "may be away"},
		"filtered":              {nil, "10.0.0.2:5000", left, true, time.Hour, OutcomeFailed, "is filtered"},
		"filtered by now":       {ago(time.Hour), "10.0.0.2:5000", left, false, time.Hour, OutcomeFailed, "is filtered"},
		"filtered just now":     {ago(time.Minute), "10.0.0.2:5000", left, true, time.Hour, OutcomeUnknown, "last 3 Map-Registers were not"},
		"just started":          {nil, "10.0.0.2:5000", left, true, time.Second, OutcomeUnknown, "not answered yet"},
		"no Map-Notify wanted":  {nil, "10.0.0.2:5000", api.MapServer{}, true, time.Hour, OutcomeUnknown, "not answered yet"},
		"away":                  {nil, "", left, true, time.Hour, OutcomeUnknown, "may be away"},
	} {
		v := viewOf("192.0.2.1:4342", c.seen)
		v.daemon.AnsweredAt = c.answered
		expectStep(t, name, controlPortStep(&v, c.m, c.direct, now.Add(-c.up), now), c.outcome, c.words)
	}
	rtr := netip.MustParseAddr("192.0.2.9")
	own := netip.MustParseAddr("10.0.0.2")
	for name, c := range map[string]struct {
		rtr      *api.NATRTR
		answered bool
		outcome  Outcome
		words    string
	}{
		"no RTR":          {nil, true, OutcomeUnknown, "no RTR"},
		"of another RLOC": {&api.NATRTR{Address: netip.MustParseAddr("2001:db8::9"), ConfirmedAt: &now}, true, OutcomeUnknown, "no RTR of that family"},
		"it answers":      {&api.NATRTR{Address: rtr, ConfirmedAt: &now}, false, OutcomeOK, "answers what leaves from UDP port 4341"},
		"not yet":         {&api.NATRTR{Address: rtr}, true, OutcomeUnknown, "not answered yet"},
		"silent":          {&api.NATRTR{Address: rtr, Silent: true, ConfirmedAt: &now}, false, OutcomeUnknown, "may be away"},
		"filtered":        {&api.NATRTR{Address: rtr, Silent: true, ConfirmedAt: &now}, true, OutcomeFailed, "is filtered"},
	} {
		rtrs := []api.NATRTR{{Address: rtr, RLOC: netip.MustParseAddr("10.0.0.3")}}
		if c.rtr != nil {
			if c.rtr.Address.Is4() {
				c.rtr.RLOC = own
			}
			rtrs = append(rtrs, *c.rtr)
		}
		steps := dataPortSteps(own, rtrs, map[netip.Addr]bool{rtr: c.answered})
		if len(steps) != 1 {
			t.Fatalf("%s: %d steps", name, len(steps))
		}
		expectStep(t, name, steps[0], c.outcome, c.words)
	}
	two := []api.NATRTR{{Address: rtr, RLOC: own, ConfirmedAt: &now}, {Address: netip.MustParseAddr("192.0.2.10"), RLOC: own, Silent: true}}
	if steps := dataPortSteps(own, two, nil); len(steps) != 2 || steps[0].Outcome != OutcomeOK || steps[1].Outcome != OutcomeUnknown {
		t.Errorf("of two RTRs: %+v", steps)
	}
	if names := rtrNames(two); names != "RTRs 192.0.2.9, 192.0.2.10" {
		t.Error(names)
	}
}

// infoServer answers Info-Requests on loopback with what answers makes of each.
func infoServer(t *testing.T, answers func(m *wire.InfoRequest, from netip.AddrPort) [][]byte) netip.AddrPort {
	t.Helper()
	conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		buffer := make([]byte, maxDatagramOctets)
		for {
			length, from, err := conn.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			m, err := wire.Parse(buffer[:length])
			ask, isInfo := m.(*wire.InfoRequest)
			if err == nil && isInfo &&
				(ask.KeyID == 0 || wire.Verify(buffer[:length], []byte("right")) == nil) {
				for _, b := range answers(ask, from) {
					_, _ = conn.WriteToUDPAddrPort(b, from)
				}
			}
		}
	}()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

// infoReplyTo is an answer that says that the sender was seen at an address and port.
func infoReplyTo(t *testing.T, m *wire.InfoRequest, seen, key string) []byte {
	at := netip.MustParseAddrPort(seen)
	reply := &wire.InfoReply{InfoRequest: *m, NAT: &wire.NATTraversalLCAF{
		ETRPort: at.Port(), GlobalETR: wire.RLOCAddress(lisp.RLOCFromAddr(at.Addr())), MapServer: wire.NoAddress{}, PrivateETR: wire.NoAddress{},
	}}
	if m.KeyID == 0 {
		b, err := reply.AppendTo(nil)
		if err != nil {
			t.Error(err)
		}
		return b
	}
	reply.Authentication = make([]byte, len(m.Authentication))
	b, err := wire.AppendSigned(nil, reply, []byte(key))
	if err != nil {
		t.Error(err)
	}
	return b
}

// viewsOf are those of a daemon that asked a Map-Server from an RLOC.
func viewsOf(server netip.AddrPort, rloc string) *api.NAT {
	return &api.NAT{Views: []api.NATView{{MapServer: server.String(), RLOC: lisp.RLOCFromAddr(netip.MustParseAddr(rloc))}}}
}

// natSteps are those about a Map-Server that the daemon asked from 127.0.0.1.
func natSteps(t *testing.T, server netip.AddrPort, servers ...NATServer) []Step {
	n := &netcheck{report: &Report{}, informed: map[string]bool{}, NetcheckOptions: NetcheckOptions{Timeout: 200 * time.Millisecond}}
	n.checkViews(t.Context(), viewsOf(server, "127.0.0.1"), servers)
	return n.report.Steps
}

// TestInfoRepliesAreBelievedByNonceAndKey: all else that arrives is passed over, and the right answer behind it
// taken.
func TestInfoRepliesAreBelievedByNonceAndKey(t *testing.T) {
	for name, c := range map[string]struct {
		key, seen string
		outcome   Outcome
	}{
		"right": {"right", "203.0.113.9:7", OutcomeFailed}, "another key": {"wrong", "203.0.113.9:7", OutcomeUnknown},
		"loopback": {"right", "127.0.0.9:7", OutcomeUnknown}, "port 0": {"right", "203.0.113.9:0", OutcomeUnknown},
		"multicast": {"right", "224.0.0.1:7", OutcomeUnknown}, "nowhere": {"right", "0.0.0.0:7", OutcomeUnknown},
	} {
		server := infoServer(t, func(m *wire.InfoRequest, _ netip.AddrPort) [][]byte {
			other := *m
			other.Nonce++
			return [][]byte{{}, {0x78}, make([]byte, 2000), infoReplyTo(t, &other, "203.0.113.1:1", "right"), infoReplyTo(t, m, c.seen, c.key)}
		})
		steps := natSteps(t, server, NATServer{
			Address: server, Prefix: lisp.MustParsePrefix("10.1.0.0/24"), Keys: []control.Key{{ID: 1, Algorithm: 2, Secret: []byte("right")}},
		})
		expectStep(t, name, steps[0], c.outcome, "")
		if c.outcome == OutcomeFailed && !strings.Contains(steps[0].Detail, "is seen as 203.0.113.9:7") {
			t.Errorf("%s: %+v", name, steps[0])
		}
	}
}

// TestNATIsNotTried: without views of the daemon, without its configuration, without a key; and nothing is said of it
// where nothing is registered.
func TestNATIsNotTried(t *testing.T) {
	server := infoServer(t, func(*wire.InfoRequest, netip.AddrPort) [][]byte { t.Error("asked"); return nil })
	expectStep(t, "no key", natSteps(t, server)[0], OutcomeUnknown, "no key for it")
	for name, c := range map[string]struct {
		nat   *api.NAT
		words string
	}{"off": {&api.NAT{}, "is off"}, "no file": {viewsOf(server, "192.0.2.1"), "cannot be read"}} {
		n := &netcheck{report: &Report{}, nat: *c.nat}
		n.NATServers = func(file string) ([]NATServer, error) { return nil, errors.New(file + " cannot be read") }
		n.checkNAT(t.Context())
		if len(n.report.Steps) > 0 {
			t.Errorf("nothing is registered: %+v", n.report.Steps)
		}
		n.status.MapServers = []api.MapServer{{}}
		n.checkNAT(t.Context())
		expectStep(t, name, n.report.Steps[0], OutcomeNotTried, c.words)
	}
}

// TestNetcheckAsksInTheFormThatIsAnswered: of simple-nat where the daemon was answered in that one, without a key; in
// both where it was answered in neither; only of the other protocol where it was answered in that one.
func TestNetcheckAsksInTheFormThatIsAnswered(t *testing.T) {
	withKey := NATServer{Prefix: lisp.MustParsePrefix("10.1.0.0/24"),
		Keys: []control.Key{{ID: 1, Algorithm: 2, Secret: []byte("right")}}}
	for name, c := range map[string]struct {
		protocol string // of the daemon
		speaks   string // the Map-Server
		keys     bool
		words    string // "" for no answer
		asked    string
	}{
		"simple": {api.NATProtocolSimple, api.NATProtocolSimple, false,
			"203.0.113.9:7, by simple-nat", "simple"},
		"not the other": {api.NATProtocolSimple, api.NATProtocolErmagan, true, "", "simple"},
		"neither yet, simple": {api.NATProtocolAuto, api.NATProtocolSimple, true,
			"203.0.113.9:7, by simple-nat", "ermagan simple"},
		"neither yet, ermagan": {api.NATProtocolAuto, api.NATProtocolErmagan, true,
			"203.0.113.9:7, by draft-ermagan", "ermagan simple"},
		"ermagan": {api.NATProtocolErmagan, api.NATProtocolSimple, true, "", "ermagan"},
	} {
		var mutex sync.Mutex
		asked := map[string]bool{}
		server := infoServer(t, func(m *wire.InfoRequest, _ netip.AddrPort) [][]byte {
			form := api.NATProtocolSimple
			if m.KeyID != 0 {
				form = api.NATProtocolErmagan
			}
			mutex.Lock()
			defer mutex.Unlock()
			if asked[form] = true; form != c.speaks {
				return nil
			}
			other := *m
			other.Nonce++
			return [][]byte{infoReplyTo(t, &other, "203.0.113.1:1", "right"),
				infoReplyTo(t, m, "203.0.113.9:7", "right")}
		})
		var servers []NATServer
		if c.keys {
			withKey.Address = server
			servers = append(servers, withKey)
		}
		nat := viewsOf(server, "127.0.0.1")
		nat.Views[0].Protocol = c.protocol
		n := &netcheck{report: &Report{}, informed: map[string]bool{},
			NetcheckOptions: NetcheckOptions{Timeout: 100 * time.Millisecond}}
		n.checkViews(t.Context(), nat, servers)
		s := n.report.Steps[0]
		if (c.words == "") != (s.Outcome == OutcomeUnknown) || !strings.Contains(s.Detail, c.words) {
			t.Errorf("%s: %+v", name, s)
		}
		if proves := n.informed[server.String()]; proves != (c.words != "" &&
			c.speaks == api.NATProtocolErmagan) {
			t.Errorf("%s: the key is right: %v", name, proves)
		}
		mutex.Lock()
		if got := strings.Join(slices.Sorted(maps.Keys(asked)), " "); got != c.asked {
			t.Errorf("%s: asked in the form of %s, want %s", name, got, c.asked)
		}
		mutex.Unlock()
	}
}

// TestSimpleNATIsBelievedFromTheAddressThatWasAsked: its answers are not authenticated.
func TestSimpleNATIsBelievedFromTheAddressThatWasAsked(t *testing.T) {
	m := &wire.InfoRequest{Nonce: 7, EID: wire.NoAddress{}, HostName: natName}
	asked := netip.MustParseAddrPort("192.0.2.1:4342")
	q := natQuestions{7: {0, api.NATProtocolSimple}}
	for from, want := range map[string]bool{"192.0.2.1:4342": true, "192.0.2.1:4341": false, "192.0.2.66:4342": false} {
		_, _, ok := q.seenIn(infoReplyTo(t, m, "203.0.113.9:7", ""), netip.MustParseAddrPort(from),
			[]NATServer{{Address: asked}})
		if ok != want {
			t.Errorf("an answer from %s: %v", from, ok)
		}
	}
}

// TestStepsOfSimpleNAT: Map-Registers go directly, so a Map-Notify says that port 4342 passes; an RTR need not answer.
func TestStepsOfSimpleNAT(t *testing.T) {
	if simple := (&api.NAT{RTRs: []api.NATRTR{{Protocol: "simple"}}}); !registersDirectly(simple) ||
		!registersDirectly(&api.NAT{}) {
		t.Error("by simple-nat Map-Registers go to the Map-Server")
	}
	if registersDirectly(&api.NAT{RTRs: []api.NATRTR{{Protocol: "simple"}, {Protocol: "ermagan"}}}) {
		t.Error("by the other protocol Map-Registers go to the RTR")
	}
	now, rtr := time.Now(), api.NATRTR{Protocol: "simple", Address: netip.MustParseAddr("192.0.2.9")}
	expectStep(t, "no answer", dataPortStep(rtr.Address, &rtr, nil), OutcomeUnknown, "need not")
	rtr.ConfirmedAt, rtr.Silent = &now, true
	s := dataPortStep(rtr.Address, &rtr, map[netip.Addr]bool{rtr.Address: true})
	if expectStep(t, "filtered", s, OutcomeFailed, "is filtered"); !strings.Contains(s.Remedy,
		"192.0.2.9 port 4341") {
		t.Error(s.Remedy)
	}
}
