// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"loci/daemon/store"
	"loci/internal/testnet"
	"loci/lisp"
	"loci/wire"
)

// registerSite registers the one EID-Prefix of a site of sitesOf.
func (r *wholeDaemon) registerSite(site int) {
	r.t.Helper()
	m := wire.MapRegister{XTRIDPresent: true, XTRID: [16]byte{15: byte(site), 14: byte(site >> 8)}, Nonce: uint64(time.Now().UnixNano()), AlgorithmID: 3, Authentication: make([]byte, 32)}
	set, err := lisp.NewLocatorSet(lisp.Locator{RLOC: lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.1")), Priority: 1, Weight: 100, Reachable: true})
	if err != nil {
		r.t.Fatal(err)
	}
	p := lisp.MustParsePrefix(fmt.Sprintf("10.%d.%d.0/24", site>>8, site&255))
	m.Records = append(m.Records, wire.RecordOf(lisp.Mapping{Prefix: p, TTLMinutes: 10, Locators: set}))
	b, err := wire.AppendSigned(nil, &m, []byte(fmt.Sprintf("key-of-site-%d", site)))
	if err != nil {
		r.t.Fatal(err)
	}
	conn, err := net.DialUDP("udp4", nil, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: r.port})
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write(b); err != nil {
		r.t.Fatal(err)
	}
}

func (r *wholeDaemon) registrations() int {
	status, err := r.client.Status(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return status.Registrations
}

// journalled runs a Map-Server with a store, and so many sites registered.
func journalled(t *testing.T, directory string, sites int) *wholeDaemon {
	t.Helper()
	d := startDaemon(t, sitesOf(sites)+"  state-directory: "+directory+"\n")
	for site := range sites {
		d.registerSite(site)
		d.await("registered", func() bool { return d.registrations() == site+1 })
	}
	return d
}

// isWhole reports whether the journal that a daemon writes has something, and nothing that is damaged.
func isWhole(t *testing.T, directory string) bool {
	t.Helper()
	another, pieces := t.TempDir(), 0
	if os.CopyFS(another, os.DirFS(directory)) != nil {
		return false // a file went meanwhile
	}
	var damage strings.Builder
	log := slog.New(slog.NewTextHandler(&damage, &slog.HandlerOptions{Level: slog.LevelWarn}))
	s, err := store.OpenJournal(another, log, func([]byte, bool) error { pieces++; return nil })
	if err != nil {
		return false
	}
	return damage.Len() == 0 && pieces > 0 && s.Close() == nil
}

// TestDamagedJournalOfADaemon damages 64 octets in the middle of what is on disk: what is not in them is there after the next start, and
// the log says how much is not, and where a copy of the damaged piece is.
func TestDamagedJournalOfADaemon(t *testing.T) {
	const sites = 40
	for _, c := range []struct {
		name string
		at   func(octets []byte) int
		copy string
	}{
		{"inside an entry", func(b []byte) int { return len(b) / 2 }, ".damaged-"},
		// A length of the log's own: all behind it is lost to the log, not to the journal.
		{"a length of the log", func([]byte) int { return 0 }, ".damaged-"},
	} {
		t.Run(c.name, func(t *testing.T) {
			directory := t.TempDir()
			d := journalled(t, directory, sites)
			d.stop()
			segments, _ := filepath.Glob(filepath.Join(directory, "journal", strings.Repeat("[0-9]", 20)))
			segment := segments[len(segments)-1]
			octets, err := os.ReadFile(segment)
			if err != nil {
				t.Fatal(err)
			}
			at := c.at(octets)
			for i := range octets[at : at+64] {
				octets[at+i] ^= 0x55
			}
			if err := os.WriteFile(segment, octets, 0o600); err != nil {
				t.Fatal(err)
			}
			d.start()
			if got := d.registrations(); got < sites-3 || got == sites {
				t.Errorf("%d of %d registrations are left\n%s", got, sites, d.log.String())
			}
			copies, _ := filepath.Glob(filepath.Join(directory, "journal"+c.copy+"*"))
			if len(copies) == 0 || !strings.Contains(d.log.String(), copies[0]) || !strings.Contains(d.log.String(), "records-missing-at-least=") {
				t.Errorf("copies %q\n%s", copies, d.log.String())
			}
			before := d.registrations()
			d.await("everything is said anew", func() bool { return isWhole(t, directory) })
			d.stop()
			d.log.text.Reset()
			d.start()
			if got := d.registrations(); got != before || strings.Contains(d.log.String(), "damaged") {
				t.Errorf("%d of %d registrations after another start\n%s", got, before, d.log.String())
			}
		})
	}
}

// TestFullDiskIsTold: while the disk is full the log and the status say so, and not that something crashed; when there is room again,
// everything is stored, and both say that, too.
func TestFullDiskIsTold(t *testing.T) {
	testnet.RequireRoot(t)
	t.Parallel() // it mostly waits
	directory := t.TempDir()
	mount := func(flags uintptr, size string) {
		t.Helper()
		if err := syscall.Mount("tmpfs", directory, "tmpfs", flags, "size="+size); err != nil {
			t.Fatal(err)
		}
	}
	mount(0, "64k")
	t.Cleanup(func() { _ = syscall.Unmount(directory, syscall.MNT_DETACH) })
	d := journalled(t, directory, 1)
	ballast := filepath.Join(directory, "ballast")
	_ = os.WriteFile(ballast, make([]byte, 1<<20), 0o600) // as much as there is room for
	told := func() bool {
		status, err := d.client.Status(t.Context())
		return err == nil && slices.ContainsFunc(status.Warnings, func(w string) bool {
			return strings.Contains(w, "the registrations are not stored since ") && strings.Contains(w, "no space left on device")
		})
	}
	d.await("the status tells", func() bool { d.registerSite(0); return told() })
	if !strings.Contains(d.log.String(), "a restart would lose what came since; trying again") {
		t.Errorf("the log:\n%s", d.log.String())
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	d.await("the status tells nothing any more", func() bool { return !told() })
	d.stop()
	log := d.log.String()
	if strings.Contains(log, "as a crash") || !strings.Contains(log, "all registrations are stored again") || strings.Count(log, "level=ERROR") > 2 {
		t.Errorf("the log:\n%s", log)
	}
	d.start()
	if got := d.registrations(); got != 1 {
		t.Errorf("%d registrations after the next start\n%s", got, d.log.String())
	}
}
