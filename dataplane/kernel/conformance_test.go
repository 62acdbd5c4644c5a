// SPDX-License-Identifier: Apache-2.0

// The conformance suite of engines, with the kernel's network around the engine. The tests need root.

package kernel

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"loci/dataplane"
	"loci/dataplane/conformance"
	"loci/dataplane/conformance/behindnat"
	"loci/dataplane/conformance/flows"
	"loci/dataplane/conformance/links"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/pins"
)

const (
	conformanceMappings = 300
	siteEntries         = 2 // of the Database, which shares the table's limit
)

// engineHarness is a conformance.Harness.
type engineHarness struct {
	*links.Network
	engine  *Engine
	hook    dataplane.Hook
	options Options
}

func newHarness(t testing.TB) conformance.Harness { return newHarnessAt(t, dataplane.HookTC) }

func newHarnessAt(t testing.TB, hook dataplane.Hook) conformance.Harness {
	return newHarnessOn(t, links.New(t), hook)
}

func newHarnessOn(t testing.TB, n *links.Network, hook dataplane.Hook) conformance.Harness {
	t.Helper()
	h := &engineHarness{Network: n, hook: hook}
	instance := strings.ReplaceAll(h.Router.Name(), ".", "_")
	h.options = Options{Instance: instance, MappingLimit: conformanceMappings + siteEntries, Logger: testLogger()}
	h.open(t)
	t.Cleanup(func() {
		h.expectHook(t)
		if err := h.engine.Detach(context.Background()); err != nil && !errors.Is(err, dataplane.ErrClosed) {
			t.Errorf("detach: %v", err)
		}
		_ = os.RemoveAll(pins.DefaultDirectory + "/" + instance) // of an engine that was closed
	})
	return h
}

func (h *engineHarness) open(t testing.TB) {
	must(t, h.Router.Do(func() (err error) {
		h.engine, err = Open(h.options)
		return err
	}))
}

// Reopen has another engine take over the tables.
func (h *engineHarness) Reopen(t testing.TB) {
	must(t, h.engine.Close())
	h.open(t)
}

// expectHook demands that the suite went through the hook that it is about.
func (h *engineHarness) expectHook(t testing.TB) {
	for _, s := range h.engine.InterfaceStates() {
		if s.Present && s.Hook != h.hook {
			t.Errorf("interface %+v, want hook %s", s, h.hook)
		}
	}
}

func (h *engineHarness) Plane() dataplane.Plane { return h.engine }
func (h *engineHarness) MappingLimit() int      { return conformanceMappings }

func (h *engineHarness) Settings() dataplane.Settings {
	return h.Network.Settings(h.engine.Settings(), h.hook)
}

// Pass sleeps, unless that is too long: then the pauses of Locator-Status-Bits come nearer.
func (h *engineHarness) Pass(d time.Duration) {
	if d < time.Minute {
		time.Sleep(d)
		return
	}
	for _, record := range h.engine.records() {
		if record.Flags&abi.MappingDatabase != 0 {
			atomic.StoreUint64(&record.ExpiresNs, record.ExpiresNs-min(record.ExpiresNs, uint64(d)))
		}
	}
}

// Shows RFC 9300 s.5 (3), RFC 9300 s.8 (1), RFC 9300 s.13.1 (2), RFC 9300 s.13.1 (3), RFC 9301 s.5.4 (4), RFC 6832
// s.5 (2), RFC 6832 s.5.2 (2), RFC 6832 s.6 (1), RFC 6832 s.6.1 (3), (4), (5), RFC 8060 s.4.6 (2).
func TestConformance(t *testing.T) { conformance.Run(t, newHarness) }

// TestFlows are flows that are bound to a path, at tc and with the XDP programs in front. The table is the same for
// both.
func TestFlows(t *testing.T) {
	for hook, except := range map[dataplane.Hook][]string{dataplane.HookTC: nil, dataplane.HookXDP: {flows.Limited}} {
		t.Run(hook.String(), func(t *testing.T) {
			flows.Run(t, func(t testing.TB) conformance.Harness { return newHarnessAt(t, hook) }, except...)
		})
	}
}

// TestBehindNAT: one binding for all flows, and packets that a NAT64 lets pass.
func TestBehindNAT(t *testing.T) {
	behindnat.Run(t, func(t testing.TB, n *links.Network) conformance.Harness { return newHarnessOn(t, n, dataplane.HookTC) })
}

// TestConformanceAtXDP is the suite with the XDP programs in front of those at tc.
func TestConformanceAtXDP(t *testing.T) {
	conformance.Run(t, func(t testing.TB) conformance.Harness { return newHarnessAt(t, dataplane.HookXDP) })
}
