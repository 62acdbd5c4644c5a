// SPDX-License-Identifier: Apache-2.0

// This file reaches the network namespace that an engine was opened in, from
// whichever thread. It never changes the namespace of a thread that others use.

package netspace

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// A Space is a network namespace.
type Space struct {
	Ns      netns.NsHandle
	Netlink *netlink.Handle
	Cookie  uint64 // of no other namespace since boot
}

// Current is the namespace of the calling thread.
func Current() (*Space, error) {
	ns, err := netns.Get()
	if err != nil {
		return nil, fmt.Errorf("network namespace: %w", err)
	}
	s := &Space{Ns: ns}
	err = s.Do(func() (err error) {
		if s.Netlink, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
			return fmt.Errorf("netlink: %w", err)
		}
		s.Cookie, err = namespaceCookie()
		return err
	})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Do runs f on a thread that is in the namespace.
func (s *Space) Do(f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if s.isHere() {
			defer runtime.UnlockOSThread()
			result <- f()
			return
		}
		// The thread ends with the goroutine: no other goroutine inherits its namespace.
		if err := netns.Set(s.Ns); err != nil {
			result <- fmt.Errorf("entering the network namespace: %w", err)
			return
		}
		result <- f()
	}()
	return <-result
}

// isHere reports whether the calling thread is in the namespace: who is, needs no privilege to enter it.
func (s *Space) isHere() bool {
	var here, there unix.Stat_t
	err := errors.Join(unix.Stat("/proc/thread-self/ns/net", &here), unix.Fstat(int(s.Ns), &there))
	return err == nil && here.Dev == there.Dev && here.Ino == there.Ino
}

// Close lets go of the namespace.
func (s *Space) Close() error {
	if s.Netlink != nil {
		s.Netlink.Close()
	}
	return s.Ns.Close()
}

func namespaceCookie() (uint64, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("socket: %w", err)
	}
	defer unix.Close(fd)
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return 0, fmt.Errorf("cookie of the network namespace: %w", err)
	}
	return cookie, nil
}
