// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"loci/control"
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
	s, err := openStore(another, silent, func([]byte, bool) error { pieces++; return nil })
	if err != nil {
		return false
	}
	return !s.gap && pieces > 0 && s.disk.close() == nil
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
		{"inside an entry", func(b []byte) int { return len(b) / 2 }, asideDamaged},
		// A length of the log's own: all behind it is lost to the log, not to the journal.
		{"a length of the log", func([]byte) int { return 0 }, asideDamaged},
	} {
		t.Run(c.name, func(t *testing.T) {
			directory := t.TempDir()
			d := journalled(t, directory, sites)
			d.stop()
			segment := lastSegment(t, directory)
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
			copies, _ := filepath.Glob(filepath.Join(directory, logDirectory+c.copy+"*"))
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
	another, err := openStore(broken, silent, func(piece []byte, whole bool) error {
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
	s := &storeLog{directory: filepath.Join(t.TempDir(), logDirectory)}
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
