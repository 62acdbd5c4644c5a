// SPDX-License-Identifier: Apache-2.0

//go:build !nolispnat

package lispnat

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"loci/config/translation"
	"loci/internal/testnet"
	"loci/wire"
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

// TestFragmentsToAnRLOCInAPoolArrive: they are put together also where the packet is not tracked.
func TestFragmentsToAnRLOCInAPoolArrive(t *testing.T) {
	for _, c := range []struct{ from, own, neighbour string }{
		{"192.168.1.0/24", "203.0.113.1/24", "203.0.113.2/24"},
		{"fd99:1::/64", "2001:db8:b::1/64", "2001:db8:b::2/64"},
	} {
		network := testnet.ForTest(t)
		router, err := network.Namespace("router")
		must(t, err)
		neighbour, err := network.Namespace("neighbour")
		must(t, err)
		own, theirs := netip.MustParsePrefix(c.own), netip.MustParsePrefix(c.neighbour)
		must(t, testnet.Connect(testnet.End{Namespace: router, Name: "core0", Addresses: []netip.Prefix{own}},
			testnet.End{Namespace: neighbour, Name: "core0", Addresses: []netip.Prefix{theirs}}))
		s := testSpec()
		s.Entries[0].From, s.Entries[0].Pool = netip.MustParsePrefix(c.from), translation.PoolOf(own.Masked())
		must(t, router.Do(func() error { return newTranslator().Follow(s) }))
		to := netip.AddrPortFrom(own.Addr(), wire.DataPort)
		listening, err := router.ListenUDP(to)
		must(t, err)
		defer listening.Close()
		sending, err := neighbour.DialUDP(netip.AddrPort{}, to)
		must(t, err)
		defer sending.Close()
		_, err = sending.Write(make([]byte, 4000))
		must(t, err)
		must(t, listening.SetReadDeadline(time.Now().Add(3*time.Second)))
		if octets, err := listening.Read(make([]byte, 5000)); err != nil || octets != 4000 {
			t.Errorf("%s: %d octets of 4000 arrive: %v", to, octets, err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestCountsOutliveTheTable: also where they are read before the table is back.
func TestCountsOutliveTheTable(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		translator := newTranslator()
		follow(t, translator, testSpec())
		translator.last[0] = counts{sessions: 9, unsolicited: 4}
		if err := remove("loci0"); err != nil {
			t.Error(err)
		}
		for range 2 {
			if e := translator.State().Entries[0]; e.Begun != 9 || e.Unsolicited != 4 {
				t.Errorf("%d sessions, %d packets; want 9, 4", e.Begun, e.Unsolicited)
			}
			translator.check()
		}
	})
}

// TestCountsStayWithTheirEntry: a reload may replace entries, or give them another place.
func TestCountsStayWithTheirEntry(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		translator := newTranslator()
		follow(t, translator, testSpec())
		translator.last[0], translator.earlier[0] = counts{7, 1}, counts{5, 2}
		if err := remove("loci0"); err != nil { // else its counts are read, which are zeros
			t.Error(err)
		}
		other := testSpec().Entries[0]
		other.From = netip.MustParsePrefix("192.168.9.0/24")
		moved := testSpec()
		moved.Entries = []Entry{other, moved.Entries[0]}
		follow(t, translator, moved)
		fresh, kept := translator.State().Entries[0], translator.State().Entries[1]
		if fresh.Begun != 0 || fresh.Unsolicited != 0 || kept.Begun != 12 || kept.Unsolicited != 3 {
			t.Errorf("%d and %d sessions of a new entry, and of one that had 12", fresh.Begun, kept.Begun)
		}
		replaced := testSpec()
		third := other
		third.From = netip.MustParsePrefix("192.168.10.0/24")
		replaced.Entries = []Entry{other, third}
		follow(t, translator, replaced)
		if e := translator.State().Entries[1]; e.Begun != 0 || e.Unsolicited != 0 {
			t.Errorf("an entry has %d sessions of the one that it replaces", e.Begun)
		}
	})
}

// TestChangedTablesAreMadeAnew: they have their rules, and do something else.
func TestChangedTablesAreMadeAnew(t *testing.T) {
	testnet.RequireProgram(t, "nft")
	const chain = "add chain inet lisp-nat-loci0 "
	for name, change := range map[string]string{
		"dormant table": "add table inet lisp-nat-loci0 { flags dormant; }",
		"policy":        chain + "arriving { type filter hook prerouting priority -350; policy drop; }",
		"one more rule": "add rule inet lisp-nat-loci0 private drop",
		"another chain": chain + "other { type filter hook forward priority 0; policy drop; }",
	} {
		inNamespace(t, func(t *testing.T) {
			translator := newTranslator()
			follow(t, translator, testSpec())
			if output, err := exec.Command("nft", change).CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", name, err, output)
			}
			translator.check()
			if got := translator.State().Restores; got != 1 {
				t.Errorf("%s: made anew %d times, want 1", name, got)
			}
			translator.check()
			if got := translator.State().Restores; got != 1 {
				t.Errorf("%s: made anew %d times though it is right", name, got)
			}
		})
	}
}

// TestTablesOfOtherChainsAreMadeAnew: a table whose rules are right, in chains of an earlier version.
func TestTablesOfOtherChainsAreMadeAnew(t *testing.T) {
	for name, change := range map[string]func(*chain){
		"priority": func(c *chain) { c.priority = -450 },
		"hook":     func(c *chain) { c.hook = nftables.ChainHookForward },
		"no hook":  func(c *chain) { c.hook, c.kind = nil, "" },
	} {
		inNamespace(t, func(t *testing.T) {
			ours := slices.Clone(chains)
			change(&chains[0])
			err := testSpec().install()
			chains = ours
			if intact, _, readErr := testSpec().read(); err != nil || readErr != nil || intact {
				t.Errorf("a chain with another %s counts as intact: %v, %v", name, err, readErr)
			}
		})
	}
}

// TestKernelsWithoutNftablesHaveNoTable: removing it is no error there.
func TestKernelsWithoutNftablesHaveNoTable(t *testing.T) {
	for _, err := range []error{unix.ENOENT, unix.EOPNOTSUPP, unix.EPROTONOSUPPORT, unix.EINVAL} {
		if got := withoutTable(os.NewSyscallError("recvmsg", err)); got != nil {
			t.Errorf("%v: %v", err, got)
		}
		if got := withoutTable(fmt.Errorf("conn.Receive: %w", errors.Join(err))); got != nil {
			t.Errorf("%v within another: %v", err, got)
		}
	}
	for _, err := range []error{unix.EPERM, unix.EBUSY} {
		if got := withoutTable(os.NewSyscallError("recvmsg", err)); !errors.Is(got, err) {
			t.Errorf("%v: %v", err, got)
		}
	}
}

// TestNoRightsAndNothingConfigured: a daemon that is given its TUN may have no rights, and needs none to have no table.
func TestNoRightsAndNothingConfigured(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var all, none [2]unix.CapUserData
		if err := unix.Capget(&header, &all[0]); err != nil {
			t.Error(err)
		}
		none[0].Permitted, none[1].Permitted = all[0].Permitted, all[1].Permitted
		if err := unix.Capset(&header, &none[0]); err != nil { // of this thread
			t.Error(err)
		}
		defer func() {
			if err := unix.Capset(&header, &all[0]); err != nil {
				t.Error(err)
			}
		}()
		translator := newTranslator()
		follow(t, translator, nil)
		if err := translator.Remove(); err != nil {
			t.Error(err)
		}
		if err := translator.Follow(testSpec()); !errors.Is(err, unix.EPERM) {
			t.Errorf("a table without rights: %v", err)
		}
	})
}
