// SPDX-License-Identifier: Apache-2.0

package show

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"loci/daemon/api"
	"loci/internal/jsondoc"
	"loci/lisp"
)

var databaseTable = prefixTable[api.DatabaseEntry]{(*api.Client).EachDatabase, databasePrefix, databaseHeading, databaseRows, tableOwner{}}

func databasePrefix(e api.DatabaseEntry) lisp.Prefix { return e.EIDPrefix }

// aheadOf reads ahead in a list that is asked for once.
func aheadOf(entries iter.Seq2[api.DatabaseEntry, error]) iter.Seq2[api.DatabaseEntry, error] {
	return ahead(func(api.ListQuery) iter.Seq2[api.DatabaseEntry, error] { return entries }, databasePrefix, api.ListQuery{})
}

func entriesOf(n int, end error) iter.Seq2[api.DatabaseEntry, error] {
	return func(yield func(api.DatabaseEntry, error) bool) {
		for i := range n {
			if !yield(databaseEntry(i), nil) {
				return
			}
		}
		if end != nil {
			yield(api.DatabaseEntry{}, end)
		}
	}
}

func databaseEntry(i int) api.DatabaseEntry {
	return api.DatabaseEntry{EIDPrefix: lisp.MustParsePrefix(fmt.Sprintf("10.%d.%d.0/24", i>>8, i&0xff)), TTL: api.TTLOf(1440)}
}

// TestListsAsJSON are what the whole would be in one document.
func TestListsAsJSON(t *testing.T) {
	for _, n := range []int{0, 1, 3} {
		list := []api.DatabaseEntry{}
		for i := range n {
			list = append(list, databaseEntry(i))
		}
		var want, got bytes.Buffer
		if err := errors.Join(jsondoc.WriteIndented(&want, list), printArray(&got, entriesOf(n, nil))); err != nil {
			t.Fatal(err)
		}
		if got.String() != want.String() {
			t.Errorf("%d entries: %s, want %s", n, got.String(), want.String())
		}
	}
}

// TestFirstRowsDoNotWait: where entries come slowly, the first ones are printed without those that follow, which are
// aligned with them.
func TestFirstRowsDoNotWait(t *testing.T) {
	var out bytes.Buffer
	early := 0
	entries := func(yield func(api.DatabaseEntry, error) bool) {
		yield(databaseEntry(0), nil)
		time.Sleep(firstRows)
		yield(databaseEntry(1), nil)
		early = strings.Count(out.String(), "\n")
		yield(databaseEntry(2), nil)
	}
	if err := databaseTable.print(&out, entries, noRows); err != nil || early != 3 || strings.Count(out.String(), "\n") != 4 {
		t.Errorf("%v; %d lines before the end:\n%s", err, early, out.String())
	}
}

// TestListsAsTables: one heading, and rows before the list has ended.
func TestListsAsTables(t *testing.T) {
	for entries, want := range map[int]int{0: 1, 1: 2, 2 * alignedRows: 2*alignedRows + 1} {
		var out bytes.Buffer
		if err := databaseTable.print(&out, entriesOf(entries, nil), noRows); err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(out.String(), "\n"); lines != want || strings.Count(out.String(), "EID-PREFIX") != min(entries, 1) {
			t.Errorf("%d entries: %d lines, want %d", entries, lines, want)
		}
	}
	var out bytes.Buffer
	early := 0
	entries := func(yield func(api.DatabaseEntry, error) bool) {
		for e := range entriesOf(alignedRows, nil) {
			yield(e, nil)
		}
		early = strings.Count(out.String(), "\n")
		yield(api.DatabaseEntry{}, errors.New("the daemon left"))
	}
	if err := databaseTable.print(&out, entries, noRows); err == nil || early < alignedRows {
		t.Errorf("%v; %d lines before the end", err, early)
	}
	if rows := registrationRows(time.Now(), api.Registration{}); len(rows) != 1 || strings.Count(rows[0], "\t") != strings.Count(registrationHeading, "\t") {
		t.Errorf("%q under %q", rows, registrationHeading)
	}
}

// TestListsAreReadAhead in their order, with the error at their end, and no further than they are wanted.
func TestListsAreReadAhead(t *testing.T) {
	end := errors.New("the daemon left")
	for _, n := range []int{0, 1, chunkEntries - 1, chunkEntries, chunkEntries + 1, 5*chunkEntries + 7} {
		for _, wantErr := range []error{nil, end} {
			synctest.Test(t, func(t *testing.T) {
				got, err := 0, error(nil)
				for entry, e := range aheadOf(entriesOf(n, wantErr)) {
					if err = e; err != nil {
						continue
					}
					if entry.EIDPrefix != databaseEntry(got).EIDPrefix {
						t.Fatalf("entry %d of %d: %s", got, n, entry.EIDPrefix)
					}
					got++
				}
				if got != n || !errors.Is(err, wantErr) {
					t.Errorf("%d entries of %d, %v", got, n, err)
				}
			})
		}
	}
	synctest.Test(t, func(t *testing.T) { // it fails with a goroutine that does not end
		read := 0
		entries := func(yield func(api.DatabaseEntry, error) bool) {
			for yield(databaseEntry(read), nil) {
				read++
			}
		}
		for range aheadOf(entries) {
			synctest.Wait()
			break
		}
		synctest.Wait()
		if read > 3*chunkEntries {
			t.Errorf("%d entries were read for one", read)
		}
	})
	synctest.Test(t, func(t *testing.T) { // slow ones are handed on
		entries := func(yield func(api.DatabaseEntry, error) bool) {
			for i := 0; yield(databaseEntry(i), nil); i++ {
				time.Sleep(firstRows / 2)
			}
		}
		began := time.Now()
		for range aheadOf(entries) {
			break
		}
		if waited := time.Since(began); waited > firstRows/2 {
			t.Errorf("the first entries waited for %s", waited)
		}
		time.Sleep(time.Second)
	})
}

// TestListsOutlastAPager: where the output stands still for minutes, the daemon is rid of the question after seconds,
// and every entry is printed once, in order, with what stands at the same EID-Prefix together.
func TestListsOutlastAPager(t *testing.T) {
	const prefixes, each = 5 * chunkEntries, 3 // entries of each EID-Prefix
	for _, limit := range []int{0, prefixes, prefixes*each - 1} {
		synctest.Test(t, func(t *testing.T) {
			asked, open := 0, 0
			ask := func(q api.ListQuery) iter.Seq2[api.Registration, error] {
				return func(yield func(api.Registration, error) bool) {
					asked++
					open++
					defer func() { open-- }()
					sent := 0
					for i := range prefixes * each {
						r := api.Registration{EIDPrefix: databaseEntry(i / each).EIDPrefix, KeyID: uint8(i % each)}
						if !q.After.IsZero() && r.EIDPrefix.Compare(q.After) <= 0 {
							continue
						}
						if sent++; !yield(r, nil) || sent == q.Limit {
							return
						}
					}
				}
			}
			got, stood := 0, 0
			prefixOf := func(r api.Registration) lisp.Prefix { return r.EIDPrefix }
			for r, err := range ahead(ask, prefixOf, api.ListQuery{Limit: limit}) {
				if err != nil || r.EIDPrefix != databaseEntry(got/each).EIDPrefix || int(r.KeyID) != got%each {
					t.Fatalf("entry %d of limit %d is %s, %d; %v", got, limit, r.EIDPrefix, r.KeyID, err)
				}
				if got++; got%(3*chunkEntries) == 1 {
					time.Sleep(5 * time.Minute)
					synctest.Wait()
					stood++
					if open > 0 {
						t.Fatalf("after %d entries the daemon still answers while nothing is printed", got)
					}
				}
			}
			want := prefixes * each
			if limit > 0 {
				want = limit
			}
			if got != want || asked < 2 || asked > stood+1 {
				t.Errorf("limit %d: %d entries, %d questions, the output stood still %d times", limit, got, asked, stood)
			}
		})
	}
}

// TestAnswersInTimeAreOneList: an output that stands still for less is served by one question.
func TestAnswersInTimeAreOneList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, got := 0, 0
		ask := func(api.ListQuery) iter.Seq2[api.DatabaseEntry, error] {
			asked++
			return entriesOf(5*chunkEntries, nil)
		}
		for range ahead(ask, databasePrefix, api.ListQuery{}) {
			if got++; got%chunkEntries == 1 {
				time.Sleep(stillTime - time.Second)
			}
		}
		if asked != 1 || got != 5*chunkEntries {
			t.Errorf("%d questions, %d entries", asked, got)
		}
	})
}

func noRows() string { return "none" }
