// SPDX-License-Identifier: Apache-2.0

package underlay

import (
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"loci/dataplane/kernel/kerneltest"
	"loci/dataplane/kernel/tap"
	"loci/forward"
)

// TestReassembledWhileTAPIsMadeAnew has packets come together while the TAP becomes another one: each goes to one of the two, and is
// written by nothing that is half of either. The race detector tells.
func TestReassembledWhileTAPIsMadeAnew(t *testing.T) {
	first, _ := kerneltest.PairedTAP(t)
	second, far := kerneltest.PairedTAP(t)
	var mu sync.Mutex
	var dropped, done uint64
	inUse := *first
	e := NewReassembly(ReassemblyParts{
		Drop: func(forward.DropReason, tap.Frame) { dropped++ }, Done: &done,
		Device: func() tap.TAP {
			mu.Lock()
			defer mu.Unlock()
			return inUse
		},
	})
	var running sync.WaitGroup
	packet := func() tap.Frame {
		return append(make(tap.Frame, tap.VnetOctets+tap.EthernetOctets), make([]byte, 20)...)
	}
	running.Go(func() {
		for range 1000 {
			e.bringBack(outerHeader{ifindex: 7}, packet())
		}
	})
	for i := range 1000 {
		mu.Lock()
		inUse = *[]*tap.TAP{first, second}[i%2]
		mu.Unlock()
	}
	running.Wait()
	for n := 1; n > 0; {
		n, _ = unix.Read(int(far.Fd()), make([]byte, 100))
	}
	e.bringBack(outerHeader{ifindex: 7}, packet())
	if n, err := far.Read(make([]byte, 100)); err != nil || n == 0 {
		t.Errorf("nothing comes to the new TAP: %v", err)
	}
	must(t, second.File.Close())
	before := dropped
	e.bringBack(outerHeader{ifindex: 7}, packet())
	if dropped := dropped - before; dropped != 1 {
		t.Errorf("%d packets are told to be dropped without a TAP", dropped)
	}
}

// deafTables are told of drops, and tell nothing.
