// SPDX-License-Identifier: Apache-2.0

package main

// What `loci lig --json` makes of the TTLs of a Map-Reply.

import (
	"testing"
	"time"

	"loci/control"
	"loci/daemon/api"
	"loci/lisp"
)

func ligEntryOf(ttlMinutes uint32) api.MapCacheEntry {
	m := lisp.Mapping{Prefix: lisp.MustParsePrefix("10.2.0.0/16"), TTLMinutes: ttlMinutes}
	return ligResultOf(control.LigQuery{}, control.LigAnswer{Mappings: []lisp.Mapping{m}}).Mappings[0]
}

func TestLigExpiry(t *testing.T) {
	for ttl, want := range map[uint32]time.Duration{
		0: 0, 1440: 24 * time.Hour, 153_722_868: lisp.MaxLifetime, 0x7fffffff: lisp.MaxLifetime, 0xfffffffe: lisp.MaxLifetime,
	} {
		entry := ligEntryOf(ttl)
		if entry.ExpiresAt == nil || entry.ExpiresAt.Sub(entry.CreatedAt) != want {
			t.Errorf("TTL %d: %+v, want %s", ttl, entry, want)
		}
	}
	if entry := ligEntryOf(lisp.TTLUnlimited); entry.ExpiresAt != nil {
		t.Errorf("an unlimited TTL ends at %s", entry.ExpiresAt)
	}
}
