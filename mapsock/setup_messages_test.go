// SPDX-License-Identifier: Apache-2.0

package mapsock

import (
	"net/netip"
	"testing"
	"time"

	"loci/dataplane"
	"loci/lisp"
)

func up(rloc string) lisp.Locator {
	return lisp.Locator{RLOC: lisp.RLOCFromAddr(netip.MustParseAddr(rloc)), Priority: 1, Weight: 100, Reachable: true}
}

// mappingTo is a mapping with locators, that lives for a day.
func mappingTo(prefix string, rlocs ...string) dataplane.PutMapping {
	now := time.Now()
	mapping := lisp.Mapping{Prefix: lisp.MustParsePrefix(prefix), TTLMinutes: lisp.DefaultTTLMinutes}
	for _, r := range rlocs {
		mapping.Locators = append(mapping.Locators, up(r))
	}
	return dataplane.PutMapping{Entry: dataplane.MapCacheEntry{Mapping: mapping, CreatedAt: now, ExpiresAt: now.Add(24 * time.Hour)}}
}

func ownPrefix(prefix string) dataplane.PutDatabase {
	return dataplane.PutDatabase{Entry: dataplane.DatabaseEntry{Prefix: lisp.MustParsePrefix(prefix), Locators: lisp.LocatorSet{up("192.0.2.1")}}}
}

// octetsOf writes the message of an operation.
func octetsOf(t testing.TB, seq uint32, operation dataplane.Operation) []byte {
	t.Helper()
	m := &Message{Seq: seq}
	err := m.SetOperation(operation)
	if err != nil {
		t.Fatal(err)
	}
	m.Seq = seq
	b, err := m.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func written(t testing.TB, b []byte, m *Message) []byte {
	t.Helper()
	b, err := m.Append(b)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
