// SPDX-License-Identifier: Apache-2.0

package testnet

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestReceiveByThread(t *testing.T) {
	hosts := newTwoHosts(t)
	sys := filepath.Join(t.TempDir(), "sys")
	threads, err := hosts.b.ReceiveByThread(sys, "eth0")
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOPNOTSUPP) {
		t.Skipf("no threads that receive, or no right to their priority: %v", err)
	}
	must(t, err)
	for _, thread := range threads {
		attributes, err := unix.SchedGetAttr(thread, 0)
		must(t, err)
		if attributes.Policy != unix.SCHED_FIFO {
			t.Errorf("thread %d has policy %d", thread, attributes.Policy)
		}
	}
	if _, err := (TCP{Client: hosts.a, Server: hosts.b, Destination: b6, Octets: 1 << 20}).Run(context.Background()); err != nil {
		t.Errorf("TCP to an interface that receives by a thread: %v", err)
	}
	if _, err := hosts.b.ReceiveByThread(sys, "no-such-link"); err == nil {
		t.Error("an interface that is not there: no error")
	}
}
