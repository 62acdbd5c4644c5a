// SPDX-License-Identifier: Apache-2.0

// A router with a site's interface and one of the core, for tests, which need root.

package attach

import (
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"

	"loci/dataplane"
	"loci/dataplane/kernel/features"
	"loci/dataplane/kernel/netspace"
	"loci/dataplane/kernel/pins"
	"loci/dataplane/kernel/store"
	"loci/dataplane/kernel/tap"
	"loci/internal/testnet"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// host is a router whose interfaces are attached, with tables that have no entry.
type host struct {
	*Interfaces
	ns  *testnet.Namespace
	tap *tap.TAP
}

func bothSides(hook dataplane.Hook) []dataplane.Interface {
	return []dataplane.Interface{
		{Name: "site0", Side: dataplane.SideSite, Hook: hook},
		{Name: "core0", Side: dataplane.SideCore, Hook: hook},
	}
}

func newHost(t *testing.T) *host {
	t.Helper()
	net := testnet.ForTest(t)
	ns, err := net.Namespace("xtr")
	must(t, err)
	for _, name := range []string{"site0", "core0"} {
		far, err := net.Namespace(name)
		must(t, err)
		near := testnet.End{Namespace: ns, Name: name}
		must(t, testnet.Connect(near, testnet.End{Namespace: far, Name: "eth0"}))
	}
	h := &host{ns: ns}
	must(t, ns.Do(func() error { return h.open(t, strings.ReplaceAll(ns.Name(), ".", "_")) }))
	h.use(bothSides(dataplane.HookAuto))
	h.sync(t)
	return h
}

// open makes maps and the TAP, and loads the programs.
func (h *host) open(t *testing.T, instance string) error {
	space, err := netspace.Current()
	must(t, err)
	directory, err := pins.Open(pins.DefaultDirectory, instance)
	must(t, err)
	h.tap, err = tap.Open(space, tap.DefaultName)
	must(t, err)
	maps, _, err := store.Open(directory, store.Limits{})
	must(t, err)
	programs, err := maps.Programs(features.HaveDecapFlags())
	must(t, err)
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	h.Interfaces, err = Open(Parts{
		Log: log, Space: space, Pins: directory, Instance: instance, Store: maps, TCPrograms: programs,
	})
	must(t, err)
	t.Cleanup(func() {
		must(t, errors.Join(h.DetachAll(), h.tap.Remove(),
			os.RemoveAll(directory.Maps()), os.RemoveAll(directory.Links())))
		must(t, errors.Join(h.Close(), h.tap.File.Close(), maps.Close(), space.Close(), directory.Remove()))
	})
	return nil
}

// use says which interfaces there should be.
func (h *host) use(interfaces []dataplane.Interface) { h.Use(interfaces, h.tap.Index, h.tap.Mac, 0) }

func (h *host) sync(t *testing.T) {
	t.Helper()
	_, err := h.Sync()
	must(t, err)
}
