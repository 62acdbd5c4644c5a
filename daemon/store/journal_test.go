// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"loci/control"
)

var silent = slog.New(slog.DiscardHandler)

// openedStore opens a store and returns what it had.
func openedStore(t *testing.T, directory string) (*Journal, []string) {
	t.Helper()
	var had []string
	s, err := OpenJournal(directory, silent, func(piece []byte, whole bool) error {
		if whole {
			had = append(had, string(piece))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s.BeginCheckpoint = func() bool { return true }
	return s, had
}

func (s *Journal) put(t *testing.T, pieces ...control.Journal) {
	t.Helper()
	for _, p := range pieces {
		s.Queue(p)
		s.flush(t.Context())
	}
}

func said(text string) control.Journal { return control.Journal{Octets: []byte(text)} }

// crashed is the directory as a killed process leaves it.
func crashed(t *testing.T, directory string) string {
	t.Helper()
	another := t.TempDir()
	if err := os.CopyFS(another, os.DirFS(directory)); err != nil {
		t.Fatal(err)
	}
	return another
}

func lastSegment(t *testing.T, directory string) string {
	t.Helper()
	names, err := segments(filepath.Join(directory, logDirectory))
	if err != nil || len(names) == 0 {
		t.Fatalf("segments %v: %v", names, err)
	}
	return filepath.Join(directory, logDirectory, names[len(names)-1])
}

func TestStoreOutlivesACrash(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "not", "there", "yet")
	s, had := openedStore(t, directory)
	if len(had) != 0 {
		t.Errorf("a new store has %q", had)
	}
	s.put(t, said("one"), said("two"))
	directory = crashed(t, directory)
	s, had = openedStore(t, directory)
	if !slices.Equal(had, []string{"one", "two"}) {
		t.Errorf("after the crash: %q", had)
	}
	s.put(t, said("three"))
	if _, had = openedStore(t, crashed(t, directory)); !slices.Equal(had, []string{"one", "two", "three"}) {
		t.Errorf("after two crashes: %q", had)
	}
}

func TestStoreIsOfOneDaemon(t *testing.T) {
	directory := t.TempDir()
	openedStore(t, directory)
	_, err := OpenJournal(directory, silent, nil)
	if err == nil || !strings.Contains(err.Error(), "in use by another daemon") {
		t.Errorf("a second daemon: %v", err)
	}
}

// TestStoreWithADamagedEnd cuts and changes the log at every octet: what was whole stays,
// nothing is made up, and the store can be written to again.
func TestStoreWithADamagedEnd(t *testing.T) {
	directory := t.TempDir()
	s, _ := openedStore(t, directory)
	s.put(t, said("first"), said("second"))
	whole, err := os.ReadFile(lastSegment(t, directory))
	if err != nil {
		t.Fatal(err)
	}
	for at := range whole {
		for _, damage := range []struct {
			name  string
			apply func() []byte
		}{
			{"cut", func() []byte { return whole[:at] }},
			{"changed", func() []byte { b := slices.Clone(whole); b[at] ^= 0x55; return b }},
			{"zeroed", func() []byte { b := slices.Clone(whole); clear(b[at:]); return b }},
		} {
			broken := crashed(t, directory)
			if err := os.WriteFile(lastSegment(t, broken), damage.apply(), 0o600); err != nil {
				t.Fatal(err)
			}
			s, had := openedStore(t, broken)
			for _, piece := range had {
				if piece != "first" && piece != "second" && piece != "" {
					t.Fatalf("%s at %d: a piece %q", damage.name, at, piece)
				}
			}
			if at > 10 && (len(had) == 0 || had[0] != "first") {
				t.Fatalf("%s at %d, in the second entry: %q", damage.name, at, had)
			}
			s.put(t, said("third"))
			if _, had = openedStore(t, crashed(t, broken)); len(had) == 0 || had[len(had)-1] != "third" {
				t.Fatalf("%s at %d, then written to: %q", damage.name, at, had)
			}
		}
	}
}

func TestUnreadableStoreIsSetAside(t *testing.T) {
	directory := t.TempDir()
	s, _ := openedStore(t, directory)
	for i := range 3 { // several segments
		s.put(t, control.Journal{Octets: make([]byte, segmentOctets+i)})
	}
	names, _ := segments(s.disk.directory)
	if len(names) < 3 {
		t.Fatalf("segments %v", names)
	}
	broken := crashed(t, directory)
	if err := os.WriteFile(filepath.Join(broken, logDirectory, names[1]), []byte("\xff\xff\xff\xff nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, had := openedStore(t, broken)
	if len(had) == 0 {
		t.Error("what came before the damage is lost")
	}
	if _, err := os.Stat(filepath.Join(broken, logDirectory+".unreadable-1")); err != nil {
		t.Errorf("the damaged log is gone: %v", err)
	}
	asked := false
	s.BeginCheckpoint = func() bool { asked = true; return true }
	s.askForCheckpoint()
	if !asked {
		t.Error("the store does not ask for a checkpoint of what was lost")
	}
}

func TestCheckpointShortensTheLog(t *testing.T) {
	directory := t.TempDir()
	s, _ := openedStore(t, directory)
	s.put(t, said("old"), said("older"))
	s.put(t, control.Journal{Octets: []byte("begin"), Begin: true}, said("middle"))
	if _, had := openedStore(t, crashed(t, directory)); len(had) != 4 {
		t.Errorf("during the checkpoint: %q", had)
	}
	s.put(t, control.Journal{Octets: []byte("end"), End: true}, said("new"))
	if _, had := openedStore(t, crashed(t, directory)); !slices.Equal(had, []string{"begin", "middle", "end", "new"}) {
		t.Errorf("after the checkpoint: %q", had)
	}
	// All of it in one batch, with more before it.
	for _, p := range []control.Journal{said("gone"), {Octets: []byte("begin again"), Begin: true}, {End: true}} {
		s.Queue(p)
	}
	s.flush(t.Context())
	if _, had := openedStore(t, crashed(t, directory)); !slices.Equal(had, []string{"begin again"}) {
		t.Errorf("after the second one: %q", had)
	}
}

// TestLostPieces: a checkpoint that lost a piece removes nothing, and another one is asked
// for.
func TestLostPieces(t *testing.T) {
	directory := t.TempDir()
	s, _ := openedStore(t, directory)
	asked := 0
	s.BeginCheckpoint = func() bool { asked++; return true }
	s.put(t, said("old"))
	s.askForCheckpoint()
	if asked != 0 {
		t.Fatal("a checkpoint was asked for without need")
	}
	s.put(t, control.Journal{Begin: true})
	s.Queue(control.Journal{Octets: make([]byte, maxPendingOctets+1)})
	if s.lost.Load() != 1 {
		t.Fatalf("%d pieces were lost", s.lost.Load())
	}
	s.put(t, control.Journal{End: true})
	s.askForCheckpoint()
	if _, had := openedStore(t, crashed(t, directory)); len(had) == 0 || had[0] != "old" || asked != 1 {
		t.Errorf("after a loss: %q, asked %d times", had, asked)
	}
}

// TestStoreAfterAFailedWrite closes the file under the store.
func TestStoreAfterAFailedWrite(t *testing.T) {
	directory := t.TempDir()
	s, _ := openedStore(t, directory)
	s.put(t, said("one"))
	if err := s.disk.wal.Close(); err != nil {
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	s.Queue(said("lost"))
	s.flush(stopped)
	if s.failed.Load() != 1 || !s.gap {
		t.Fatalf("%d failures, gap %v", s.failed.Load(), s.gap)
	}
	if err := s.disk.reopen(silent, nil); err != nil {
		t.Fatal(err)
	}
	s.put(t, said("two"))
	if _, had := openedStore(t, crashed(t, directory)); !slices.Equal(had, []string{"one", "two"}) {
		t.Errorf("after the failure: %q", had)
	}
}

func TestLongBatchesAreSplit(t *testing.T) {
	directory := t.TempDir()
	s, _ := openedStore(t, directory)
	for i := range 100 {
		s.Queue(said(strings.Repeat(fmt.Sprint(i%10), 10_000)))
	}
	s.flush(t.Context())
	_, had := openedStore(t, crashed(t, directory))
	if all := strings.Join(had, ""); len(all) != 1_000_000 || len(had) < 3 {
		t.Errorf("%d octets in %d entries", len(all), len(had))
	}
}

// What is told as the time until a change is durable began when the first piece came, not when it was its turn to be written.
func TestSlowestWriteCountsTheWait(t *testing.T) {
	s, _ := openedStore(t, t.TempDir())
	s.Queue(said("one"))
	s.since = s.since.Add(-time.Hour) // so long the write before it took
	s.Queue(said("two"))
	s.flush(t.Context())
	if took := time.Duration(s.slowest.Load()); took < time.Hour {
		t.Errorf("durable after %v", took)
	}
	s.slowest.Store(0)
	s.put(t, said("three"))
	if took := time.Duration(s.slowest.Load()); took <= 0 || took >= time.Hour {
		t.Errorf("durable after %v: it counts what was written before", took)
	}
}

// Much is written without waiting for more; less waits, from when it came.
func TestPlentyIsWrittenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := openedStore(t, t.TempDir())
		gathers := func() time.Duration {
			began := time.Now()
			s.gather(t.Context())
			return time.Since(began)
		}
		s.Queue(control.Journal{Octets: make([]byte, storePlenty-1)})
		if waited := gathers(); waited != storeInterval {
			t.Errorf("little waits for others %v", waited)
		}
		if waited := gathers(); waited > 0 {
			t.Errorf("what has waited already waits %v more", waited)
		}
		s.flush(t.Context())
		s.Queue(control.Journal{Octets: make([]byte, storePlenty-1)})
		s.Queue(said("."))
		if waited := gathers(); waited != 0 {
			t.Errorf("plenty waits %v for more", waited)
		}
	})
}

// TestSalvageFromSeveralFiles damages the framing of a file in the middle: what is whole in it and behind it is taken over.
func TestSalvageFromSeveralFiles(t *testing.T) {
	directory := t.TempDir()
	s, _ := openedStore(t, directory)
	for i := range 3 {
		s.put(t, control.Journal{Octets: append(make([]byte, segmentOctets), fmt.Sprintf("piece-%d", i)...)})
	}
	names, _ := segments(s.disk.directory)
	broken := crashed(t, directory)
	path := filepath.Join(broken, logDirectory, names[1])
	octets, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copy(octets, "\xff\xff\xff\xff\xff\xff")
	if err := os.WriteFile(path, octets, 0o600); err != nil {
		t.Fatal(err)
	}
	var found []string
	another, err := OpenJournal(broken, silent, func(piece []byte, whole bool) error {
		for i := range 3 {
			if name := fmt.Sprintf("piece-%d", i); !whole && bytes.Contains(piece, []byte(name)) {
				found = append(found, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(found, []string{"piece-0", "piece-1", "piece-2"}) || !another.gap {
		t.Errorf("found %q, gap %v", found, another.gap)
	}
}

// TestCopiesAreBounded: of damaged journals a few copies are kept, the newest.
func TestCopiesAreBounded(t *testing.T) {
	s := &diskLog{directory: filepath.Join(t.TempDir(), logDirectory)}
	for i := range 2 * maxAside {
		as := s.keepDamaged([]byte{byte(i)}, silent)
		if kept, err := os.ReadFile(as); err != nil || !bytes.Equal(kept, []byte{byte(i)}) {
			t.Fatalf("copy %d: %q, %v", i, kept, err)
		}
	}
	copies, _ := filepath.Glob(s.directory + asideDamaged + "*")
	if len(copies) != maxAside {
		t.Errorf("%d copies: %q", len(copies), copies)
	}
}
