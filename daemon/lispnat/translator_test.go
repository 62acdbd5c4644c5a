// SPDX-License-Identifier: Apache-2.0

//go:build !nolispnat

package lispnat

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/nftables"

	"loci/internal/testnet"
)

// inNamespace runs a test in a network namespace of its own.
func inNamespace(t *testing.T, test func(*testing.T)) {
	t.Helper()
	ns, err := testnet.ForTest(t).Namespace("router")
	if err != nil {
		t.Fatal(err)
	}
	if err := ns.Do(func() error { test(t); return nil }); err != nil {
		t.Fatal(err)
	}
}

func newTranslator() *Translator {
	return New("loci0", slog.New(slog.DiscardHandler), func(time.Time) {})
}

func expectTables(t *testing.T, want ...string) {
	t.Helper()
	conn, err := nftables.New()
	if err != nil {
		t.Error(err)
		return
	}
	var got []string
	tables, err := conn.ListTables()
	for _, table := range tables {
		got = append(got, table.Name)
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("tables %q, %v; want %q", got, err, want)
	}
}

func follow(t *testing.T, translator *Translator, s *Spec) {
	t.Helper()
	if err := translator.Follow(s); err != nil {
		t.Error(err)
	}
}

// TestTableOfAnEarlierRunGoesWithTheKey: a start without itr.lisp-nat ends what an earlier one translated.
func TestTableOfAnEarlierRunGoesWithTheKey(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		follow(t, newTranslator(), testSpec())
		expectTables(t, "lisp-nat-loci0")
		next := newTranslator()
		follow(t, next, nil)
		expectTables(t)
		follow(t, next, testSpec())
		expectTables(t, "lisp-nat-loci0")
		other := testSpec()
		other.LISP = "loci1"
		follow(t, next, other)
		expectTables(t, "lisp-nat-loci1")
		follow(t, next, nil)
		expectTables(t)
	})
}
