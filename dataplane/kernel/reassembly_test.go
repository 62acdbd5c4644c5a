// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"loci/dataplane/kernel/abi"
	"loci/forward"
)

// pairedTAP is what looks like a TAP, and its other end.
func pairedTAP(t *testing.T) (*tap, *os.File) {
	t.Helper()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	near, far := os.NewFile(uintptr(ends[0]), "tap"), os.NewFile(uintptr(ends[1]), "wire")
	t.Cleanup(func() {
		near.Close()
		far.Close()
	})
	raw, err := near.SyscallConn()
	must(t, err)
	return &tap{file: near, raw: raw}, far
}

// TestReassembledWhileTAPIsMadeAnew has packets come together while the TAP becomes another one: each goes to one of the two, and is
// written by nothing that is half of either. The race detector tells.
func TestReassembledWhileTAPIsMadeAnew(t *testing.T) {
	first, _ := pairedTAP(t)
	second, far := pairedTAP(t)
	e := &Engine{store: &mapStore{words: make([]uint64, words)}}
	inUse := *first
	e.room = newRoom(&inUse, deafTables{}, nil, e.store.words, testLogger())
	e.room.unread.numbers = &abi.Unread{}
	var running sync.WaitGroup
	packet := func() frame { return append(make(frame, vnetOctets+ethernetOctets), make([]byte, 20)...) }
	running.Go(func() {
		for range 1000 {
			e.bringBack(outerHeader{ifindex: 7}, packet())
		}
	})
	for i := range 1000 {
		e.mu.Lock()
		e.room.takeTAP([]*tap{first, second}[i%2])
		e.mu.Unlock()
	}
	running.Wait()
	for n := 1; n > 0; {
		n, _ = unix.Read(int(far.Fd()), make([]byte, 100))
	}
	e.bringBack(outerHeader{ifindex: 7}, packet())
	if n, err := far.Read(make([]byte, 100)); err != nil || n == 0 {
		t.Errorf("nothing comes to the new TAP: %v", err)
	}
	must(t, second.file.Close())
	before := e.store.words[forward.DropNoTAP]
	e.bringBack(outerHeader{ifindex: 7}, packet())
	if dropped := e.store.words[forward.DropNoTAP] - before; dropped != 1 {
		t.Errorf("%d packets are told to be dropped without a TAP", dropped)
	}
}

// deafTables are told of drops, and tell nothing.
type deafTables struct{ roomTables }

func (deafTables) droppedWaiting(frame, forward.DropReason) {}
