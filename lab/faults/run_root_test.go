// SPDX-License-Identifier: Apache-2.0

package faults

// A short run with every kind of fault, on the real kernel, and one that must fail.

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"loci/config"
	"loci/internal/commandtest"
	"loci/internal/testnet"
)

// newRun builds the network and has its hosts send.
func newRun(t *testing.T) *run {
	t.Helper()
	if problems := testnet.Preflight(); len(problems) > 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal(problems)
		}
		t.Skip(problems)
	}
	n, err := newNetwork(usual, quickProbing)
	must(t, err)
	t.Cleanup(func() { must(t, n.directory.Remove()) })
	binaries := t.TempDir()
	must(t, commandtest.Build(binaries, "loci"))
	r := &run{options: Options{Engine: config.EngineKernel, Executable: filepath.Join(binaries, "loci"), Progress: t.Output()}}
	r.network = n
	t.Cleanup(func() { must(t, r.network.close()) })
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	must(t, r.network.build(ctx, r.options))
	r.traffic, err = newTraffic(r.network.at, len(n.plan))
	must(t, err)
	t.Cleanup(func() { must(t, r.traffic.close()) })
	sending, stop := context.WithCancel(t.Context())
	r.traffic.start(sending)
	t.Cleanup(func() { stop(); r.traffic.sending.Wait() })
	must(t, r.await(ctx, 0))
	return r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// lost is what no fault excuses, of what was sent since known.
func (r *run) lost(known time.Duration) []Loss {
	time.Sleep(drain)
	underWay := excuse{from: r.now() - drain, to: time.Hour, site: -1}
	list, _, _ := losses(r.traffic.streams, known, append(slices.Clone(r.excuses), underWay), r.report.Faults)
	return list
}

func TestEveryFault(t *testing.T) {
	t.Parallel() // it mostly waits
	r := newRun(t)
	known := r.now()
	for _, k := range kinds(config.EngineKernel, r.network.plan) {
		f := &fault{kind: k, target: k.targets[0]}
		must(t, r.begin(t.Context(), f))
		sleep(t.Context(), shortestFault)
		must(t, r.end(t.Context(), f))
		ended := r.now()
		back, cancel := context.WithTimeout(t.Context(), startTimeout) // how soon, the run judges
		must(t, r.await(back, ended))
		cancel()
		sleep(t.Context(), ended+recovery-r.now()) // as in a run: what this one left does not meet the next one
	}
	if list := r.lost(known); len(list) > 0 {
		t.Errorf("lost without a cause: %v", list)
	}
	r.traffic.mu.Lock()
	if len(r.traffic.wrong) > 0 {
		t.Errorf("wrong deliveries: %v", r.traffic.wrong)
	}
	r.traffic.mu.Unlock()
	// The judge finds a cut that is not among the faults.
	known = r.now()
	alone := xtr{site: 2}.String()
	must(t, linkDown(t.Context(), r.network, alone))
	sleep(t.Context(), shortestFault)
	must(t, linkUp(t.Context(), r.network, alone))
	if list := r.lost(known); len(list) < 2*(len(r.network.plan)-1) {
		t.Errorf("a link was cut, and only this is missed: %v", list)
	}
	// A daemon that no fault ended is missed.
	must(t, r.network.alive())
	must(t, r.network.daemons["xtr0"].Kill())
	err := r.expectBack(t.Context(), []*fault{{kind: kind{name: "mtu"}, target: "xtr1"}, {kind: kind{name: "freeze"}, target: msName}})
	if want := "after mtu xtr1 and freeze ms: the daemon of xtr0 has ended by itself"; err == nil || err.Error() != want {
		t.Errorf("a daemon has ended: %v, want %s", err, want)
	}
}

// TestControlCut is a short one: datagrams of known mappings are not lost while control messages are.
func TestControlCut(t *testing.T) {
	t.Parallel() // it mostly waits
	if problems := testnet.Preflight(); len(problems) > 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal(problems)
		}
		t.Skip(problems)
	}
	binaries := t.TempDir()
	must(t, commandtest.Build(binaries, "loci"))
	n, err := newNetwork(twoAndTwo, quickProbing)
	must(t, err)
	r := &run{options: Options{Engine: config.EngineKernel, Executable: filepath.Join(binaries, "loci"), Progress: t.Output()}, network: n}
	c := Cuts()[0]
	c.lasts = 12 * time.Second
	must(t, n.during(t.Context(), func(ctx context.Context) error {
		report, err := r.cut(ctx, c, time.Second, recovery)
		if err == nil && report.Sent < 1000 {
			t.Errorf("%d datagrams were sent", report.Sent)
		}
		if err == nil && report.Failed() != nil {
			t.Errorf("%v: %v", report.Failed(), report.Losses)
		}
		return err
	}))
}
