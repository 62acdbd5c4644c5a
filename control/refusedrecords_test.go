// SPDX-License-Identifier: Apache-2.0

package control

// A Map-Register with records that the Map-Server does not take: the others are taken, and
// acknowledged alone.

import (
	"slices"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/lisp"
	"loci/wire"
)

// notified are the EID-Prefixes of each Map-Notify that the node sent.
func (d *testNode) notified() (lists [][]string) {
	for _, m := range sentMessages[*wire.MapNotify](d) {
		var list []string
		for i := range m.Records {
			p, err := m.Records[i].Prefix()
			if err != nil {
				d.net.t.Fatal(err)
			}
			list = append(list, p.String())
		}
		lists = append(lists, list)
	}
	return lists
}

func (d *testNode) registeredPrefixes() (list []string) {
	for _, r := range d.registered() {
		list = append(list, r.Prefix.String())
	}
	return list
}

// refusalsTold are the EID-Prefixes of the notices about refused registrations, with site and reason.
func (d *testNode) refusalsTold() (list []string) {
	for _, n := range d.notices {
		if n.Kind == NoticeRegistrationRefused {
			list = append(list, n.Prefix.String()+" "+n.Site+" "+n.Reason)
		}
	}
	return list
}

func TestRecordsAreRefusedSingly(t *testing.T) {
	const site1, site3 = "site 10.1.0.0/16 2001:db8:1::/48", "site 10.3.0.0/16 2001:db8:3::/48"
	for _, c := range []struct {
		name     string
		records  []string
		limit    func(*Limits)
		accepted []string
		told     []string
	}{
		{"all good", []string{"10.1.2.0/24", "2001:db8:1::/48"}, nil, []string{"10.1.2.0/24", "2001:db8:1::/48"}, nil},
		{"one of no site", []string{"10.1.2.0/24", "10.9.0.0/16", "2001:db8:1::/48"}, nil,
			[]string{"10.1.2.0/24", "2001:db8:1::/48"}, []string{"10.9.0.0/16 " + site1 + " prefix-outside-site"}},
		{"the first of no site", []string{"2001:db8:9::/48", "10.9.0.0/16", "10.1.2.0/24"}, nil,
			[]string{"10.1.2.0/24"}, []string{"2001:db8:9::/48 " + site1 + " prefix-outside-site", "10.9.0.0/16 " + site1 + " prefix-outside-site"}},
		{"one of another site, with another key", []string{"10.1.2.0/24", "2001:db8:2::/48", "10.1.3.0/24"}, nil,
			[]string{"10.1.2.0/24", "10.1.3.0/24"}, []string{"2001:db8:2::/48 " + site1 + " prefix-outside-site"}},
		{"an aggregate", []string{"10.1.2.0/24", "10.0.0.0/8"}, nil, []string{"10.1.2.0/24"}, []string{"10.0.0.0/8 " + site1 + " prefix-outside-site"}},
		{"more specific than allowed", []string{"10.3.1.0/24", "2001:db8:3::/48"}, nil,
			[]string{"2001:db8:3::/48"}, []string{"10.3.1.0/24 " + site3 + " more-specific"}},
		{"beyond the table", []string{"10.1.2.0/24", "10.1.3.0/24"}, func(l *Limits) { l.Registrations = 1 },
			[]string{"10.1.2.0/24"}, []string{"10.1.3.0/24 " + site1 + " registration-table"}},
		{"beyond the site's table", []string{"10.1.2.0/24", "10.1.3.0/24"}, func(l *Limits) { l.RegistrationsPerSite = 1 },
			[]string{"10.1.2.0/24"}, []string{"10.1.3.0/24 " + site1 + " site-table"}},
	} {
		cfg := mapServerConfig("10.1.0.0/16 2001:db8:1::/48", "10.2.0.0/16 2001:db8:2::/48", "10.3.0.0/16 2001:db8:3::/48")
		cfg.MapServer.Sites[1].Keys = []Key{{ID: 1, Secret: []byte("another one")}}
		cfg.MapServer.Sites[2].Prefixes[0].AcceptMoreSpecifics = false
		if c.limit != nil {
			c.limit(&cfg.Limits)
		}
		ms := newNetwork(t).add("ms", cfg, "192.0.2.100")
		for nonce := uint64(1000); nonce < 1002; nonce++ { // and again, as a refresh does
			ms.sent, ms.notices = nil, nil
			b := register(t, func(m *wire.MapRegister) { m.Nonce = nonce }, c.records...)
			ms.inject("192.0.2.100:4342", "192.0.2.1:4342", b)
			if got := ms.registeredPrefixes(); !slices.Equal(got, c.accepted) {
				t.Errorf("%s: registered %v, want %v", c.name, got, c.accepted)
			}
			if got := ms.notified(); len(got) != 1 || !slices.Equal(slices.Sorted(slices.Values(got[0])), c.accepted) {
				t.Errorf("%s: the Map-Notifies have %v, want %v", c.name, got, c.accepted)
			}
			if got := ms.refusalsTold(); !slices.Equal(got, c.told) {
				t.Errorf("%s: told %q, want %q", c.name, got, c.told)
			}
			ms.sent = nil
			ms.inject("192.0.2.100:4342", "192.0.2.1:4342", b) // a duplicate
			if got := ms.notified(); len(got) != 1 || len(got[0]) != len(c.accepted) {
				t.Errorf("%s: the Map-Notifies to a duplicate have %v, want %v", c.name, got, c.accepted)
			}
		}
		ms.wantCounter(counter.RegistrationAccepted, 2*uint64(len(c.accepted)))
		ms.wantCounter(counter.RefusedReplay, 0)
	}
}

// TestAuthenticatedByTheFirstRecordOfASite has one that is of another site come first: the whole
// message is judged by that site's key.
func TestAuthenticatedByTheFirstRecordOfASite(t *testing.T) {
	cfg := mapServerConfig("10.1.0.0/16", "10.2.0.0/16")
	cfg.MapServer.Sites[1].Keys = []Key{{ID: 1, Secret: []byte("another one")}}
	ms := newNetwork(t).add("ms", cfg, "192.0.2.100")
	ms.inject("192.0.2.100:4342", "192.0.2.1:4342", register(t, nil, "10.9.0.0/16", "10.2.0.0/16", "10.1.0.0/16"))
	ms.wantCounter(counter.RefusedAuthentication, 1)
	if got := ms.registeredPrefixes(); len(got) > 0 {
		t.Errorf("registered %v", got)
	}
}

// TestRefusedRecordIsNotStored restarts from the journal: what was refused is not in it.
func TestRefusedRecordIsNotStored(t *testing.T) {
	cfg := mapServerConfig("10.1.0.0/16")
	cfg.MapServer.Journal = true
	s := newJournalledServer(t, cfg, epoch)
	s.take(addrPortOf("192.0.2.1"), register(t, nil, "10.9.0.0/16", "10.1.0.0/16"))
	cfg.MapServer.Sites = append(cfg.MapServer.Sites, Site{Name: "new", Keys: []Key{secret(1)}, Prefixes: []SitePrefix{{Prefix: lisp.MustParsePrefix("10.9.0.0/16")}}})
	again := newJournalledServer(t, cfg, epoch.Add(time.Second), s.pieces...)
	if sizes := again.Sizes(); sizes.Registrations != 1 {
		t.Errorf("%d registrations after the restart", sizes.Registrations)
	}
}
