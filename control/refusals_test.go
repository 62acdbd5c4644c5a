// SPDX-License-Identifier: Apache-2.0

package control

// What a Map-Server tells of registrations that it refused.

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"loci/lisp"
	"loci/wire"
)

// refusedOf are the refusals that are told one by one, in a few words, and how many others there are.
func (d *testNode) refusedOf() (list []string, others uint64) {
	rows, rest := d.RefusedRegistrations()
	for _, r := range rows {
		list = append(list, fmt.Sprintf("%s %s %v %s x%d", r.From.Addr(), r.Prefix, r.KeyFits, r.Reason, r.Count))
	}
	return list, rest.Count
}

func (d *testNode) wantRefused(what string, others uint64, want ...string) {
	d.net.t.Helper()
	list, rest := d.refusedOf()
	if fmt.Sprint(list) != fmt.Sprint(want) || rest != others {
		d.net.t.Errorf("%s: told of %q and %d others, want %q and %d", what, list, rest, want, others)
	}
}

// TestRefusedRecordsUnderAGoodKey are told with their EID-Prefix until they are taken, or no more registered.
func TestRefusedRecordsUnderAGoodKey(t *testing.T) {
	for _, from := range []string{"192.0.2.1", "2001:db8:f::1"} {
		n := newNetwork(t)
		c := mapServerConfig("10.1.0.0/24 2001:db8:1::/48", "10.2.0.0/16")
		c.MapServer.Sites[0].Prefixes[0].AcceptMoreSpecifics = false
		ms := n.add("ms", c, "192.0.2.100", "2001:db8:f::100")
		nonce := uint64(1000)
		send := func(prefixes ...string) {
			nonce++
			ms.inject("192.0.2.100:4342", netip.AddrPortFrom(netip.MustParseAddr(from), 4342).String(), register(t, func(m *wire.MapRegister) { m.Nonce = nonce }, prefixes...))
		}
		send("10.1.0.0/24")
		ms.wantRefused("a good one", 0)
		send("10.1.0.0/24", "10.9.0.0/24")
		send("10.1.0.0/24", "10.9.0.0/24")
		ms.wantRefused("an unknown prefix", 0, from+" 10.9.0.0/24 true prefix-outside-site x2")
		send("10.9.0.0/24")
		ms.wantRefused("an unknown prefix alone", 0, from+" 10.9.0.0/24 true unknown-site x3")
		n.run(4 * time.Minute)
		ms.wantRefused("not registered any more", 0)
		send("2001:db8:1::/48", "10.1.0.0/16")
		send("2001:db8:1::/48", "10.2.0.0/16")
		ms.wantRefused("an aggregate, and another site's", 0, from+" 10.1.0.0/16 true prefix-outside-site x1", from+" 10.2.0.0/16 true prefix-outside-site x1")
		n.run(4 * time.Minute)
		send("10.1.0.0/25")
		ms.wantRefused("more specific", 0, from+" 10.1.0.0/25 true more-specific x1")
		ms.configure(mapServerConfig("10.1.0.0/24 2001:db8:1::/48", "10.2.0.0/16"))
		send("10.1.0.0/25")
		ms.wantRefused("more specific, and taken then", 0)
	}
}

// TestTheSiteOfAKeyIsNamed: a site is named by its own key, whatever EID-Prefix comes under it, and by its EID-Prefix
// only where no key fits. Each site has another key.
func TestTheSiteOfAKeyIsNamed(t *testing.T) {
	const sites = 40
	keyOf := func(site int) Key { return Key{ID: 1, Secret: fmt.Appendf(nil, "the secret of site %d", site)} }
	for _, signer := range []int{0, 1, 17, sites - 1} {
		n := newNetwork(t)
		var prefixes []string
		for i := range sites {
			prefixes = append(prefixes, fmt.Sprintf("10.%d.0.0/16", i))
		}
		c := mapServerConfig(prefixes...)
		for i := range c.MapServer.Sites {
			c.MapServer.Sites[i].Name, c.MapServer.Sites[i].Keys = fmt.Sprintf("site %d", i), []Key{keyOf(i)}
		}
		ms := n.add("ms", c, "192.0.2.100")
		nonce := uint64(1000)
		send := func(site int, prefixes ...string) {
			nonce++
			m := wire.MapRegister{WantMapNotify: true, Nonce: nonce, KeyID: 1, AlgorithmID: 3, Authentication: make([]byte, 32)}
			for _, p := range prefixes {
				m.Records = append(m.Records, wire.RecordOf(lisp.Mapping{Prefix: lisp.MustParsePrefix(p), TTLMinutes: 10, Locators: locators("192.0.2.1")}))
			}
			b, err := wire.AppendSigned(nil, &m, keyOf(site).Secret)
			if err != nil {
				t.Fatal(err)
			}
			ms.inject("192.0.2.100:4342", "192.0.2.1:4342", b)
		}
		named := func(what, site, prefix, reason string) {
			t.Helper()
			rows, _ := ms.RefusedRegistrations()
			for _, r := range rows {
				if r.Site == site && r.Prefix.String() == prefix && r.KeyFits && r.Reason == reason {
					return
				}
			}
			t.Errorf("%s under the key of site %d: %+v, want %s named for %s", what, signer, rows, site, reason)
		}
		own := fmt.Sprintf("site %d", signer)
		for range 3 { // beyond some sites it takes a few Map-Registers
			send(signer, "172.16.0.0/24")
		}
		named("an unknown EID-Prefix", own, "172.16.0.0/24", "unknown-site")
		for range 3 {
			send(signer, "10.5.0.0/16")
		}
		named("another site's EID-Prefix only", own, "10.5.0.0/16", "authentication")
		if rows, _ := ms.RefusedRegistrations(); len(rows) != 2 {
			t.Errorf("under the key of site %d: %+v", signer, rows)
		}
		// No key fits: the EID-Prefix names the site, which registered from there before.
		send(signer, fmt.Sprintf("10.%d.0.0/16", signer))
		send(200, fmt.Sprintf("10.%d.0.0/16", signer))
		rows, _ := ms.RefusedRegistrations()
		if at := slices.IndexFunc(rows, func(r RefusedRegistration) bool { return !r.KeyFits }); at < 0 || rows[at].Site != own {
			t.Errorf("a wrong key: %+v", rows)
		}
	}
}

// TestRefusedETRs: one that registered within a day is told if its nonce or its key is refused, until something of it
// is taken. All others are only counted: their senders may be forged.
func TestRefusedETRs(t *testing.T) {
	for _, c := range []struct{ core, eid string }{{"192.0.2.", "10.1.0.0/16"}, {"2001:db8:f::", "2001:db8:1::/48"}} {
		n := newNetwork(t)
		ms := n.add("ms", mapServerConfig("10.1.0.0/16 2001:db8:1::/48", "10.2.0.0/16"), c.core+"100")
		at := func(host string) string { return netip.AddrPortFrom(netip.MustParseAddr(c.core+host), 4342).String() }
		send := func(from string, nonce uint64, key string) {
			b := register(t, func(m *wire.MapRegister) { m.Nonce = nonce }, c.eid)
			if key != "" {
				b[len(b)-1] ^= 1 // it does not authenticate
			}
			ms.inject(at("100"), at(from), b)
		}
		refused := c.core + "1 " + c.eid + " false "
		send("7", 1, "wrong")
		ms.wantRefused("an unknown sender with a wrong key", 1)
		send("1", 1000, "")
		send("1", 10, "")
		send("1", 11, "wrong")
		ms.wantRefused("an ETR whose clock went back", 1, refused+"authentication x2")
		send("7", 10, "")
		ms.wantRefused("a replay by an unknown sender", 2, refused+"authentication x2")
		send("1", 1001, "")
		ms.wantRefused("taken again", 2)
		n.run(23 * time.Hour)
		send("1", 10, "")
		ms.wantRefused("within a day", 0, refused+"replay x1")
		n.run(2 * time.Hour)
		send("1", 10, "")
		ms.wantRefused("after a day", 1)
	}
}

// TestRefusalsAreBounded: beyond 64 they are counted with the others.
func TestRefusalsAreBounded(t *testing.T) {
	n := newNetwork(t)
	ms := n.add("ms", mapServerConfig("10.1.0.0/16"), "192.0.2.100")
	var records []string
	for i := range 70 {
		records = append(records, fmt.Sprintf("10.9.%d.0/24", i))
	}
	ms.inject("192.0.2.100:4342", "192.0.2.1:4342", register(t, nil, append(records, "10.1.0.0/16")...))
	if list, others := ms.refusedOf(); len(list) != 64 || others != 6 {
		t.Errorf("%d told, %d others", len(list), others)
	}
	n.run(4 * time.Minute)
	ms.wantRefused("later", 0)
}
