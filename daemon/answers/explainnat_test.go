// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"log/slog"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"loci/control"
	"loci/daemon/api"
	"loci/daemon/planeworker"
	"loci/dataplane"
	"loci/dataplane/model"
	"loci/lisp"
	"loci/wire"
)

// natPair is a router behind a NAT, and a server that is its Map-Server and RTR.
type natPair struct {
	t            *testing.T
	now          time.Time
	node, server *control.Node
	plane        map[*control.Node]*model.Engine
	worker       map[*control.Node]*planeworker.Worker
}

const natOutside, natInside = "198.51.100.1", "192.168.1.2"

func newNATPair(t *testing.T, protocol control.NATProtocol) *natPair {
	t.Helper()
	addr, key := netip.MustParseAddr("192.0.2.100"), control.Key{ID: 1, Algorithm: 2, Secret: []byte("secret")}
	at := netip.AddrPortFrom(addr, wire.ControlPort)
	eid := lisp.MustParsePrefix("10.1.0.0/16")
	inside := testLocators(t, natInside)
	p := &natPair{t: t, now: time.Now(), plane: map[*control.Node]*model.Engine{}, worker: map[*control.Node]*planeworker.Worker{}}
	p.server = p.add(control.Config{
		LocalRLOCs: []lisp.RLOC{lisp.RLOCFromAddr(addr)},
		ITR:        &control.ITRConfig{MapResolvers: []netip.AddrPort{at}},
		MapServer: &control.MapServerConfig{
			Sites: []control.Site{{Name: "a", Keys: []control.Key{key}, Prefixes: []control.SitePrefix{{Prefix: eid}}}},
			RTRs:  []control.RTRPeer{{Address: addr}},
		},
		Roles: []control.RolePolicy{{Role: control.RoleRTR, EIDs: []netip.Prefix{eid.Netip()}}},
		NATRelay: &control.NATRelay{SimpleNAT: protocol == control.NATSimple, EIDs: []netip.Prefix{eid.Netip()},
			MapServers: []control.NATMapServer{{Address: addr}}},
	})
	p.node = p.add(control.Config{
		LocalRLOCs: []lisp.RLOC{inside[0].RLOC}, ITR: &control.ITRConfig{MapResolvers: []netip.AddrPort{at}},
		ETR: &control.ETRConfig{
			MapServers: []control.MapServerPeer{{Address: at, Key: key, RegistrationInterval: time.Minute, WantMapNotify: true}},
			Database:   []control.DatabaseMapping{{Prefix: eid, Locators: inside}},
			NAT:        &control.NATTraversal{Protocol: protocol},
		},
	})
	for range 20 {
		p.exchange()
	}
	return p
}

func (p *natPair) add(c control.Config) *control.Node {
	p.t.Helper()
	node, err := control.New(c, p.now, func(b []byte) { b[0]++ })
	if err != nil {
		p.t.Fatal(err)
	}
	plane := model.New(model.Options{})
	plane.Apply(dataplane.SetSettings{Settings: dataplane.Settings{LocalRLOCs: c.LocalRLOCs}})
	p.plane[node], p.worker[node] = plane, planeworker.New(plane, slog.New(slog.DiscardHandler))
	return node
}

// exchange carries what both send, by a NAT that adds 10,000 to ports.
func (p *natPair) exchange() {
	for _, from := range []*control.Node{p.node, p.server} {
		from.HandleTimeout(p.now)
		for e, ok := from.Poll(); ok; e, ok = from.Poll() {
			if packet, ok := e.(control.SendPacket); ok {
				p.send(from, packet)
			}
			p.worker[from].Change(e)
		}
		for p.worker[from].ApplyBatch() {
		}
	}
}

func (p *natPair) send(from *control.Node, e control.SendPacket) {
	switch {
	case e.Remote.Addr().String() != natOutside: // to the server, by itself or from the node
		source := e.Local
		if from == p.node {
			source = netip.AddrPortFrom(netip.MustParseAddr(natOutside), e.Local.Port()+10000)
		}
		p.arrive(p.server, e.Remote, source, e.Payload)
	default:
		p.arrive(p.node, netip.AddrPortFrom(netip.MustParseAddr(natInside), e.Remote.Port()-10000), e.Local,
			e.Payload)
	}
}

// arrive gives a router a control message, or the one in a data packet.
func (p *natPair) arrive(at *control.Node, local, from netip.AddrPort, payload []byte) {
	if local.Port() != wire.DataPort {
		at.HandlePacket(p.now, local, from, payload)
		return
	}
	if _, rest, err := wire.ParseDataHeader(payload); err == nil {
		at.HandleControlPacket(p.now, control.ControlPacket{Local: local, From: from, Packet: rest})
	}
}

func (p *natPair) ask(node *control.Node, query string) api.Explanation {
	p.t.Helper()
	values, err := url.ParseQuery(query)
	if err != nil {
		p.t.Fatal(err)
	}
	q, err := api.ParseExplainQuery(values)
	if err != nil {
		p.t.Fatal(err)
	}
	e := explainer{now: p.now, query: q, settings: p.plane[node].Settings(), states: map[lisp.Path]dataplane.LocatorState{}, families: map[bool]bool{}}
	e.askNode(node)
	e.look(p.plane[node])
	return e.explain()
}

// TestExplainNamesNATAndRTR: at the router behind the NAT why packets go to the RTR, at the RTR where they go.
func TestExplainNamesNATAndRTR(t *testing.T) {
	p := newNATPair(t, control.NATErmagan)
	e := p.ask(p.node, "eid=10.2.0.1")
	why := strings.Join(e.Why, "\n")
	for _, want := range []string{
		"from NAT traversal", "behind a NAT: Map-Server 192.0.2.100:4342 saw its RLOC 192.168.1.2 as 198.51.100.1:14342, by draft-ermagan-lisp-nat-traversal",
		"registers by RTR 192.0.2.100",
	} {
		if !strings.Contains(why, want) {
			t.Errorf("the router says\n%s\nwant %s", why, want)
		}
	}
	if e.NATProtocol != api.NATProtocolErmagan {
		t.Errorf("the protocol is %q", e.NATProtocol)
	}
	if e.Outcome != api.OutcomeEncapsulate || len(e.RTRs) != 1 || e.RTRs[0].String() != "192.0.2.100" || e.Binding != nil {
		t.Errorf("%+v", e)
	}
	e = p.ask(p.server, "eid=10.1.0.7")
	why = strings.Join(e.Why, "\n")
	if !strings.Contains(why, "packets go to 198.51.100.1:14341, where the NAT sends them on to 192.168.1.2") || strings.Contains(why, "kept by the data plane") {
		t.Errorf("the RTR says\n%s", why)
	}
	if e.Outcome != api.OutcomeEncapsulate || len(e.RTRs) > 0 || e.Binding == nil || len(e.Binding.RLOCs) != 1 || e.Binding.RLOCs[0].SeenAs != "198.51.100.1:14341" {
		t.Errorf("%+v", e)
	}
	if e := p.ask(p.server, "eid=10.9.0.7"); e.Binding != nil || strings.Contains(strings.Join(e.Why, ""), "NAT") {
		t.Errorf("of an EID without a binding the RTR says %+v", e)
	}
}

// TestExplainNamesHostsOfSimpleNAT: as with the other protocol; a host that the RTR has not heard of is named, too.
func TestExplainNamesHostsOfSimpleNAT(t *testing.T) {
	p := newNATPair(t, control.NATSimple)
	e := p.ask(p.node, "eid=10.2.0.1")
	why := strings.Join(e.Why, "\n")
	if want := "saw its RLOC 192.168.1.2 as 198.51.100.1:14342, by simple-nat"; !strings.Contains(why, want) ||
		e.NATProtocol != api.NATProtocolSimple {
		t.Errorf("%s: the router says\n%s\nwant %s", e.NATProtocol, why, want)
	}
	p.server.HandleMiss(p.now, control.Miss{Source: lisp.MustParsePrefix("10.9.0.1/32").EID(),
		Destination: lisp.MustParsePrefix("10.1.0.7/32").EID()})
	for range 5 {
		p.exchange()
	}
	e = p.ask(p.server, "eid=10.1.0.7")
	why = strings.Join(e.Why, "\n")
	if want := `by simple-nat: packets go to 198.51.100.1:14341, where its last Info-Request came from`; !strings.Contains(why, want) {
		t.Errorf("the RTR says\n%s\nwant %s", why, want)
	}
	if e.NATProtocol != api.NATProtocolSimple || len(e.NATHosts) != 1 ||
		e.NATHosts[0].SeenAs != "198.51.100.1:14341" || e.Binding != nil {
		t.Errorf("%+v", e)
	}
	x := explainer{now: p.now,
		hosts: []control.NATHost{{Name: "home", Seen: netip.MustParseAddrPort("198.51.100.1:0")}}}
	x.explainNAT()
	if why := strings.Join(x.answer.Why, ""); !strings.Contains(why,
		`"home" by simple-nat: this RTR has heard nothing of it from 198.51.100.1,`) {
		t.Errorf("not heard of: %s", why)
	}
}

// TestExplainNamesUsableRLOCs: those of the best priority, whichever of them registered last.
func TestExplainNamesUsableRLOCs(t *testing.T) {
	row := func(seen, private string, priority uint8) control.NATRLOC {
		return control.NATRLOC{Seen: netip.MustParseAddrPort(seen), Private: netip.MustParseAddr(private), Priority: priority, Weight: 30}
	}
	last := row("198.51.100.3:40003", "192.168.3.2", 255)
	for _, c := range []struct {
		rlocs []control.NATRLOC
		want  string
	}{
		{[]control.NATRLOC{last, row("198.51.100.1:40001", "192.168.1.2", 1)}, "packets go to 198.51.100.1:40001, where the NAT sends them on to 192.168.1.2"},
		{
			[]control.NATRLOC{row("198.51.100.1:40001", "192.168.1.2", 2), row("[2001:db8::1]:40002", "fd00::2", 2), last},
			"packets go to 198.51.100.1:40001, where the NAT sends them on to 192.168.1.2 (weight 30)\nor to [2001:db8::1]:40002, for its RLOC fd00::2 (weight 30)",
		},
		{[]control.NATRLOC{last}, "none of its RLOCs may be used (priority 255)"},
	} {
		x := explainer{now: time.Now(),
			bindings: []control.NATBinding{{Seen: last.Seen, Private: last.Private, RLOCs: c.rlocs}}}
		x.explainNAT()
		why := strings.Join(x.answer.Why, "\n")
		if !strings.Contains(why, c.want+"\n") || strings.Contains(why, "192.168.3.2") {
			t.Errorf("%s\nwant %s", why, c.want)
		}
		for _, r := range x.answer.Binding.RLOCs {
			if r.Priority == 255 {
				t.Errorf("%+v", x.answer.Binding)
			}
		}
	}
}
