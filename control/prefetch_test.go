// SPDX-License-Identifier: Apache-2.0

package control

// That looking ahead changes no answer, whatever happens to the table in between.

import (
	"net/netip"
	"testing"
	"time"

	"loci/control/internal/mapserver"
	"loci/control/internal/message"
	"loci/lisp"
	"loci/wire"
)

// prefetchServer knows 10.1.0.0/16.
func prefetchServer(t *testing.T) *journalledServer {
	t.Helper()
	c := mapServerConfig("10.0.0.0/8")
	c.MapServer.Journal = true
	s := newJournalledServer(t, c, epoch)
	prefetchRegister(s, "10.1.0.0/16")
	s.drain()
	return s
}

func prefetchRegister(s *journalledServer, prefix string) {
	t := &s.mapServer.Registrations
	who := t.Xtrs.Acquire(mapserver.XTR{ID: mapserver.RegistrantID{XTRID: [16]byte{1}}, From: journalXTRs[0], ProxyReply: true})
	p := lisp.MustParsePrefix(prefix)
	t.Put(t.PlaceOf(p), t.Sites.At(0), lisp.Mapping{Prefix: p, TTLMinutes: 1, Locators: locators("192.0.2.1")},
		mapserver.Registrant{XTR: who, FirstAt: s.host.Now, LastAt: s.host.Now, ExpiresAt: s.host.After(3 * time.Minute)})
	t.Xtrs.Release(who)
}

func TestPrefetchChangesNoAnswer(t *testing.T) {
	remove := func(s *journalledServer, prefix string) {
		id, _, _ := s.mapServer.Registrations.Get(lisp.MustParsePrefix(prefix))
		s.mapServer.Registrations.Remove(id)
	}
	for name, c := range map[string]struct {
		between func(*journalledServer)
		want    string // the answer's EID-Prefix
		records int    // locators of it
	}{
		"nothing happens":           {func(*journalledServer) {}, "10.1.0.0/16", 1},
		"a more specific one comes": {func(s *journalledServer) { prefetchRegister(s, "10.1.2.0/24") }, "10.1.2.0/24", 1},
		"what was prefetched goes":  {func(s *journalledServer) { remove(s, "10.1.0.0/16") }, "10.0.0.0/8", 0},
		"it goes, another takes its row": {func(s *journalledServer) {
			remove(s, "10.1.0.0/16")
			prefetchRegister(s, "10.9.0.0/16")
		}, "10.0.0.0/13", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := prefetchServer(t)
			s.mapServer.CompleteAt = s.host.Now
			first, second := prefetchReceived(t, s, "10.1.7.7/32"), prefetchReceived(t, s, "10.1.2.3/32")
			s.Prefetch(first)
			s.Prefetch(second)
			wantPrefetched(t, s, first, "10.1.0.0/16", 1)
			if second.Message.(*message.MapRequest).Prefetched.Edits != s.mapServer.Registrations.Edits {
				t.Fatal("the second was not prefetched when the first was handled")
			}
			s.sent = nil
			c.between(s)
			wantPrefetched(t, s, second, c.want, c.records)
		})
	}
}

// What is refused ends looking ahead, too: the messages may be gone afterwards.
func TestPrefetchEndsWithARefusal(t *testing.T) {
	s := prefetchServer(t)
	s.Prefetch(prefetchReceived(t, s, "10.1.2.3/32"))
	if len(s.mapServer.Registrations.Awaited) == 0 {
		t.Fatal("nothing is looked for ahead")
	}
	_, refused := Inspect(s.keyring, journalXTRs[0], netip.MustParseAddrPort("192.0.2.9:4342"), []byte{0xf0})
	s.HandleRefusal(s.now, refused)
	if left := len(s.mapServer.Registrations.Awaited); left > 0 {
		t.Errorf("%d lookups are still to come", left)
	}
}

// Where the trie has to be asked, it is asked ahead.
func TestPrefetchOfManyLengths(t *testing.T) {
	s := prefetchServer(t)
	for _, prefix := range []string{"10.2.0.0/17", "10.3.0.0/18", "10.4.0.0/19", "10.5.0.0/20", "10.6.0.0/21"} {
		prefetchRegister(s, prefix)
	}
	r := prefetchReceived(t, s, "10.1.2.3/32")
	s.Prefetch(r)
	if known := r.Message.(*message.MapRequest).Prefetched; !known.Ok || known.Edits != s.mapServer.Registrations.Edits {
		t.Errorf("prefetched is %+v", known)
	}
	wantPrefetched(t, s, r, "10.1.0.0/16", 1)
}

func prefetchReceived(t *testing.T, s *journalledServer, asked string) Received {
	t.Helper()
	r, refused := Inspect(s.keyring, journalXTRs[0], netip.MustParseAddrPort("192.0.2.9:4342"), prefetchRequest(t, asked))
	if refused != nil {
		t.Fatal(refused)
	}
	return r
}

// wantPrefetched lets a server answer, and does not wait for one that follows a row which is
// gone for ever.
func wantPrefetched(t *testing.T, s *journalledServer, r Received, want string, records int) {
	t.Helper()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		s.HandleReceived(s.now, r)
		s.drain()
	}()
	select {
	case <-answered:
	case <-time.After(time.Minute):
		t.Fatal("no end after a minute")
	}
	if len(s.sent) == 0 {
		t.Fatal("no answer")
	}
	m, err := wire.Parse(s.sent[0].Payload)
	if err != nil {
		t.Fatal(err)
	}
	record := m.(*wire.MapReply).Records[0]
	if got, _ := record.Prefix(); got.String() != want || len(record.Locators) != records {
		t.Errorf("answered %s with %d locators, want %s with %d", got, len(record.Locators), want, records)
	}
}

func prefetchRequest(t *testing.T, asked string) []byte {
	t.Helper()
	p := lisp.MustParsePrefix(asked)
	request := wire.MapRequest{Nonce: 1, ITRRLOCs: []wire.Address{wire.IPv4{192, 0, 2, 9}}, Records: []wire.RequestRecord{{EID: wire.AddressOf(p), MaskLen: 32}}}
	inner, err := request.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	itr := netip.MustParseAddrPort("192.0.2.9:4342")
	b, err := wire.AppendECM(nil, itr, itr, inner)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
