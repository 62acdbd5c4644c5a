// SPDX-License-Identifier: Apache-2.0

package control

// TTLs at the ends of their 32 bits, from every sender: an entry neither ends at
// once nor stays for ever.

import (
	"testing"
	"time"

	"loci/lisp"
	"loci/wire"
)

// extremeTTLs are TTLs in minutes and the lifetimes they stand for where unlimited
// is the receiver's own choice.
func extremeTTLs(unlimited time.Duration) map[uint32]time.Duration {
	return map[uint32]time.Duration{
		1: time.Minute, 525_600: lisp.MaxLifetime, 525_601: lisp.MaxLifetime,
		153_722_867: lisp.MaxLifetime, 153_722_868: lisp.MaxLifetime, // the last that fits into 64 bits of nanoseconds, the first that does not
		0x7fffffff: lisp.MaxLifetime, 0xfffffffe: lisp.MaxLifetime, lisp.TTLUnlimited: unlimited,
	}
}

func TestMapReplyWithExtremeTTL(t *testing.T) {
	for ttl, want := range extremeTTLs(24 * time.Hour) {
		n, x := loneITR(t, Limits{})
		x.miss("10.1.0.1", "10.2.0.1")
		answerAll(x, positive("10.2.0.0/16", ttl))
		if got := x.cache[lisp.MustParsePrefix("10.2.0.0/16")].ExpiresAt.Sub(n.now); got != want {
			t.Errorf("TTL %d: expires in %s, want %s", ttl, got, want)
		}
		n.run(30 * time.Second)
		x.wantCached("10.2.0.0/16", "192.0.2.9")
	}
}

func TestMapRegisterWithExtremeTTL(t *testing.T) {
	for ttl, want := range extremeTTLs(3 * time.Minute) {
		n := newNetwork(t)
		ms := n.add("ms", mapServerConfig("10.1.0.0/16"), "192.0.2.100")
		ms.inject("192.0.2.100:4342", "192.0.2.1:4342", register(t, func(m *wire.MapRegister) { m.UseTTL, m.Records[0].TTLMinutes = true, ttl }, "10.1.2.0/24"))
		start := n.now
		n.run(30 * time.Second)
		if r := ms.registered(); len(r) != 1 || r[0].ExpiresAt.Sub(start) != want {
			t.Errorf("TTL %d: want an end in %s, registered %+v", ttl, want, r)
		}
	}
}

func TestConfiguredExtremeTTL(t *testing.T) {
	for ttl, want := range extremeTTLs(24 * time.Hour) {
		n, x1, x2, _ := twoSites(t)
		x2.config.ETR.Database[0].TTLMinutes = ttl
		x2.start()
		c := x1.config
		c.ITR = &ITRConfig{MapResolvers: c.ITR.MapResolvers, StaticMappings: []lisp.Mapping{positive("10.9.0.0/16", ttl)}}
		x1.configure(c)
		n.run(time.Second)
		x1.miss("10.1.0.5", "10.2.0.9")
		n.run(time.Second)
		x1.wantCached("10.2.0.0/16", "192.0.2.2", "2001:db8:f::2")
		if e := x1.cache[lisp.MustParsePrefix("10.2.0.0/16")]; e.ExpiresAt.Sub(e.CreatedAt) != want {
			t.Errorf("record TTL %d: expires after %s, want %s", ttl, e.ExpiresAt.Sub(e.CreatedAt), want)
		}
		n.run(2 * time.Minute)
		x1.wantCached("10.9.0.0/16", "192.0.2.9")
	}
}
