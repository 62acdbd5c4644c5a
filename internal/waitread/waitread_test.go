// SPDX-License-Identifier: Apache-2.0

package waitread

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func pair(t *testing.T) (f *File, peer int) {
	t.Helper()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if f, err = New(ends[0]); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close(); _ = unix.Close(ends[1]) })
	return f, ends[1]
}

func readOne(f *File) (text string, err error) {
	octets := make([]byte, 16)
	waitErr := f.Read(func(fd uintptr) bool {
		var n int
		if n, err = unix.Read(int(fd), octets); errors.Is(err, unix.EAGAIN) {
			return false
		}
		text = string(octets[:max(n, 0)])
		return true
	})
	return text, errors.Join(waitErr, err)
}

// What came before, and what comes while somebody waits, is read, each message once.
func TestRead(t *testing.T) {
	f, peer := pair(t)
	texts := make(chan string)
	go func() {
		defer close(texts)
		for {
			text, err := readOne(f)
			if err != nil {
				return
			}
			texts <- text
		}
	}()
	for _, text := range []string{"a", "b", "c"} {
		if _, err := unix.Write(peer, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"a", "b", "c"} {
		if got := <-texts; got != want {
			t.Errorf("read %q, want %q", got, want)
		}
	}
	for _, text := range []string{"d", "e"} { // the reader waits, or is about to
		if _, err := unix.Write(peer, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got := <-texts; got != text {
			t.Errorf("read %q, want %q", got, text)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if text, more := <-texts; more {
		t.Errorf("read %q from a closed file", text)
	}
}

func TestEnds(t *testing.T) {
	f, _ := pair(t)
	if err := f.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := readOne(f); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the deadline: %v", err)
	}
	if err := f.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error)
	go func() { _, err := readOne(f); failed <- err }()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed while waiting: %v", err)
	}
	if err := f.Control(func(uintptr) {}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("control of a closed file: %v", err)
	}
	if err := f.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed again: %v", err)
	}
	if _, err := New(-1); err == nil {
		t.Error("no file was taken")
	}
}

// A writer goes on when there is room again.
func TestWrite(t *testing.T) {
	f, peer := pair(t)
	written := make(chan int)
	go func() {
		total := 0
		for i := range 1000 {
			_ = f.Write(func(fd uintptr) bool {
				_, err := unix.Write(int(fd), []byte{byte(i)})
				return !errors.Is(err, unix.EAGAIN)
			})
			total++
		}
		written <- total
	}()
	octet := make([]byte, 1)
	for i := range 1000 {
		if n, err := unix.Read(peer, octet); n != 1 || err != nil || octet[0] != byte(i) {
			t.Fatalf("message %d: %d octets, %v, %v", i, n, octet, err)
		}
	}
	<-written
}

// Nothing but what there is to read wakes who waits: that is what the package is for.
func TestRoomWakesNoReader(t *testing.T) {
	f, _ := pair(t)
	called := make(chan struct{}, 100)
	go func() {
		_ = f.Read(func(uintptr) bool { called <- struct{}{}; return false })
	}()
	<-called // it looked, and waits
	err := f.waits.Control(func(epoll uintptr) {
		if ready, err := unix.Poll([]unix.PollFd{{Fd: int32(epoll), Events: unix.POLLIN}}, 0); err != nil || ready != 0 {
			t.Errorf("a file with room alone is ready: %d, %v", ready, err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(called) != 0 {
		t.Error("woken for nothing")
	}
}
