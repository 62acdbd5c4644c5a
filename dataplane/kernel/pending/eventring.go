// SPDX-License-Identifier: Apache-2.0

// This file waits for the programs' events without keeping anybody from running. The library's
// reader waits in a system call, in which a goroutine keeps its place until Go's monitor takes
// it away, up to 10 ms later: where a dump has the other place, the answer to a miss waited so
// long. Here it waits as at any file of Go's.

package pending

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"loci/internal/waitread"
)

// EventRing is a ring buffer and who waits for it. One goroutine may read.
type EventRing struct {
	file *waitread.File // the map
	mu   sync.Mutex     // held while the ring is looked at, which must not be closed then; not while it is waited for

	// The reader never sleeps, but goes round while a program is about to finish the record that comes next. nil: closed.
	reader *ringbuf.Reader
}

// OpenEventRing opens the map to read it.
func OpenEventRing(from *ebpf.Map) (*EventRing, error) {
	fd, err := unix.FcntlInt(uintptr(from.FD()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	file, err := waitread.New(fd)
	if err != nil {
		return nil, err
	}
	reader, err := ringbuf.NewReader(from)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	reader.SetDeadline(time.Unix(1, 0))
	return &EventRing{file: file, reader: reader}, nil
}

// next waits for an event; ringbuf.ErrClosed after close.
func (r *EventRing) next(record *ringbuf.Record) (err error) {
	failed := r.file.Read(func(uintptr) (done bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.reader == nil {
			err = ringbuf.ErrClosed
			return true
		}
		if r.reader.AvailableBytes() == 0 {
			return false
		}
		err = r.reader.ReadInto(record)
		return !errors.Is(err, os.ErrDeadlineExceeded) // nothing was left but what the programs took back
	})
	if errors.Is(failed, net.ErrClosed) {
		return ringbuf.ErrClosed
	}
	return errors.Join(failed, err)
}

// Close ends waiting. It may be called again.
func (r *EventRing) Close() error {
	err := r.file.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reader == nil {
		return err
	}
	err = errors.Join(err, r.reader.Close())
	r.reader = nil
	return err
}
