// SPDX-License-Identifier: Apache-2.0

package store

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Nonces that a run used are below what the next one begins with, whatever the clock does meanwhile: after a crash, because the file is
// ahead, and after a stop in order.
// Shows RFC 9301 s.5.6 (4).
func TestNoncesOutliveRestartsAndClocks(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	path := filepath.Join(t.TempDir(), "nonce")
	clock := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	used := uint64(0)
	for name, back := range map[string]time.Duration{"the clock goes on": -time.Minute, "an hour back": time.Hour, "at 1970": time.Duration(clock.UnixNano())} {
		for _, crash := range []bool{true, false} {
			f, last, err := OpenNonceFile(path, clock, log)
			if err != nil || last < used {
				t.Fatalf("%s: begins with %d after %d: %v", name, last, used, err)
			}
			used = max(last+1, uint64(max(clock.UnixNano(), 0)))
			for range 3600 { // looks, while time passes
				used += uint64(nonceLook)
				if err := f.keep(used); err != nil || f.mark < used {
					t.Fatalf("%s: %d is kept for %d: %v", name, f.mark, used, err)
				}
			}
			if used += uint64(nonceLook) / 2; !crash {
				f.End(used)
			}
			clock = clock.Add(-back)
		}
	}
}

// TestNoncesStayNearTheClock of a daemon that crashes again and again at its start: beyond it they would one day find no room, and
// a Map-Server that knows them would refuse all that follow the clock.
func TestNoncesStayNearTheClock(t *testing.T) {
	log, now := slog.New(slog.DiscardHandler), time.Now()
	path := filepath.Join(t.TempDir(), "nonce")
	for range 100 {
		f, last, err := OpenNonceFile(path, now, log)
		if err != nil || f.mark <= last || f.mark <= uint64(now.UnixNano()) {
			t.Fatalf("%d is kept, after %d: %v", f.mark, last, err)
		}
		if ahead := time.Duration(f.mark - uint64(now.UnixNano())); ahead > 2*time.Hour {
			t.Fatalf("nonces are %v ahead of the clock", ahead)
		}
	}
}

func TestNonceFileThatSaysNothing(t *testing.T) {
	log, now := slog.New(slog.DiscardHandler), time.Now()
	path := filepath.Join(t.TempDir(), "nonce")
	for _, text := range []string{"", "not a number\n", "-5\n", "18446744073709551615\n", "1234567890123456789012345678901234567890\n", "12 34"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, last, err := OpenNonceFile(path, now, log)
		if err != nil || last != 0 || f.mark < uint64(now.UnixNano()) {
			t.Errorf("%q: begins with %d, %v", text, last, err)
		}
		if _, last, err := OpenNonceFile(path, now, log); err != nil || last != f.mark {
			t.Errorf("%q: the next run begins with %d, %v", text, last, err)
		}
	}
	if _, _, err := OpenNonceFile(filepath.Join(path, "in a file"), now, log); err == nil {
		t.Error("a file that cannot be written is no mistake")
	}
}
