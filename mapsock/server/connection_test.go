// SPDX-License-Identifier: Apache-2.0

package server

// Who waits at a connection, in either way, is told when it is closed.

import (
	"errors"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// connected is a connection and the client's end of it.
func connected(t *testing.T) (c *connection, client int) {
	t.Helper()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(ends[1]) })
	file := os.NewFile(uintptr(ends[0]), "socket pair")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	if c, _, err = newConnection(conn.(*net.UnixConn), new(sync.Mutex)); err != nil {
		t.Fatal(err)
	}
	return c, ends[1]
}

func TestCloseEndsWhoWaits(t *testing.T) {
	for name, lively := range map[string]bool{"by the poller": false, "in the system call": true} {
		t.Run(name, func(t *testing.T) {
			c, _ := connected(t)
			c.pace.lively = lively
			full := make([]byte, 1<<15)
			for c.writeAtOnce(full) == nil { // until there is no room
			}
			ended := make(chan error, 2)
			go func() { _, err := c.Read(make([]byte, 16)); ended <- err }()
			go func() { _, err := c.Write(full); ended <- err }()
			time.Sleep(5 * time.Millisecond) // that they mostly wait already; it is right when they do not
			if err := c.Close(); err != nil {
				t.Errorf("closing: %v", err)
			}
			for range 2 {
				select {
				case err := <-ended:
					if err == nil {
						t.Error("who waited was not told of the end")
					}
				case <-time.After(30 * time.Second):
					t.Fatal("somebody waits at a closed connection")
				}
			}
			if err := c.Close(); !errors.Is(err, os.ErrClosed) {
				t.Errorf("closing again: %v", err)
			}
			if _, err := c.Read(full); err == nil {
				t.Error("a closed connection is read from")
			}
		})
	}
}
