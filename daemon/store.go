// SPDX-License-Identifier: Apache-2.0

package daemon

// The store of the Map-Server: what has to outlive a restart, from the Node's journal to
// the log on disk (RFC 9301 s.5.6). The loop never waits for a disk: it leaves pieces here,
// and a goroutine writes what has gathered, a few times a second, and sooner where it is much: what waits for a disk takes
// as long as it is long. At risk is what came within storeInterval, or while the write before it lasted, and until it is
// written itself. When the disk does not keep up or fails, the store says so, and begins with a checkpoint when it can write again.

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"loci/control"
)

const (
	// storeInterval is how long the first piece waits for others to be written with it.
	storeInterval = 200 * time.Millisecond
	// storePlenty is for how many octets it waits no longer.
	storePlenty = 1 << 20
	// maxPendingOctets bounds what waits for the disk.
	maxPendingOctets = 64 << 20
	// storeEntryOctets is about how long an entry of the log gets.
	storeEntryOctets = 256 << 10
	// A checkpoint begins when the log is checkpointGrowth times as long as after the last
	// one, and checkpointOctets at least.
	checkpointOctets = 64 << 20
	checkpointGrowth = 2
	// storeRetry is the pause after an error.
	storeRetry = 5 * time.Second
)

// store writes the journal.
type store struct {
	disk *storeLog
	log  *slog.Logger
	// begin makes the Node begin a checkpoint; it must not wait.
	begin func() bool

	mutex   sync.Mutex
	pending []control.Journal
	since   time.Time     // when the first of them came
	octets  int           // of pending
	gap     bool          // something was lost: the log does not tell all
	wake    chan struct{} // there is a piece
	plenty  chan struct{} // there are storePlenty octets

	// The rest is of the goroutine that writes.
	base, size   int64  // octets of the log after the last checkpoint, and now
	checkpoint   uint64 // the entry where the one under way began, 0 for none
	beganSize    int64
	wantedAt     time.Time // when a checkpoint was asked for that has not begun; zero for none
	written      atomic.Uint64
	failed, lost atomic.Uint64
	slowest      atomic.Int64 // nanoseconds from the first piece of a batch to its being durable
}

// openStore opens the log and hands what is in it to replay, piece by piece.
func openStore(directory string, log *slog.Logger, replay func([]byte) error) (*store, error) {
	began := time.Now()
	disk, err := openLog(directory, log)
	if err != nil {
		return nil, fmt.Errorf("map-server.state-directory: %w", err)
	}
	s := &store{disk: disk, log: log, wake: make(chan struct{}, 1), plenty: make(chan struct{}, 1)}
	malformed := 0
	size, damaged, err := disk.read(func(piece []byte) {
		if err := replay(piece); err != nil {
			malformed++
			log.Error("a piece of the journal", "error", err)
		}
	})
	if err != nil {
		log.Error("the journal can be read in part only", "error", err)
		if err := s.beginAnew(); err != nil {
			return nil, err
		}
	}
	s.size = size
	if damaged+malformed > 0 {
		log.Error("pieces of the journal were damaged and left out", "checksum", damaged, "format", malformed)
	}
	s.gap = err != nil || damaged+malformed > 0
	log.Info("read the journal", "octets", size, "seconds", time.Since(began).Seconds())
	return s, nil
}

// beginAnew puts the log aside and opens an empty one.
func (s *store) beginAnew() error {
	_ = s.disk.wal.Close() // it cannot be read
	if err := s.disk.setAside(s.log); err != nil {
		return err
	}
	return s.disk.open(s.log)
}

// queue takes a piece; the loop calls it.
func (s *store) queue(j control.Journal) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.octets+len(j.Octets) > maxPendingOctets {
		s.lost.Add(1)
		s.gap = true
		return
	}
	if len(s.pending) == 0 {
		s.since = time.Now()
	}
	s.pending = append(s.pending, j)
	s.octets += len(j.Octets)
	wake(s.wake)
	if s.octets >= storePlenty {
		wake(s.plenty)
	}
}

// run writes until the context ends, then what is left.
func (s *store) run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-s.wake:
			s.gather(ctx)
			s.flush(ctx)
		case <-time.After(storeRetry):
		case <-ctx.Done():
		}
		s.askForCheckpoint()
	}
	s.flush(ctx)
	if err := s.disk.close(); err != nil {
		s.log.Error("close the journal", "error", err)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// gather waits until what waits is plenty, or has waited for storeInterval.
func (s *store) gather(ctx context.Context) {
	s.mutex.Lock()
	left := time.Until(s.since.Add(storeInterval))
	s.mutex.Unlock()
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.plenty:
	case <-ctx.Done():
	}
}

// flush writes what has gathered.
func (s *store) flush(ctx context.Context) {
	s.mutex.Lock()
	pieces, since := s.pending, s.since
	s.pending, s.octets = nil, 0
	s.mutex.Unlock()
	if len(pieces) == 0 {
		return
	}
	ended, err := s.write(pieces)
	if err == nil {
		s.slowest.Store(max(s.slowest.Load(), int64(time.Since(since))))
	}
	if ended {
		err = s.endCheckpoint()
	}
	if err != nil {
		s.failed.Add(1)
		s.log.Error("the registrations are not stored: a restart would lose them; trying again", "error", err)
		s.recover(ctx)
	}
}

// recover opens the log again after an error, and wants everything said anew.
func (s *store) recover(ctx context.Context) {
	s.mutex.Lock()
	s.gap = true
	s.mutex.Unlock()
	s.checkpoint, s.wantedAt = 0, time.Time{}
	for ctx.Err() == nil {
		sleep(ctx, storeRetry)
		if err := s.disk.reopen(s.log); err == nil {
			return
		}
	}
}

// write joins pieces to entries of some length and writes them. It reports whether a checkpoint has ended.
func (s *store) write(pieces []control.Journal) (ended bool, err error) {
	var entries [][]byte
	var others slice
	others.begin()
	var began bool
	var beganAt uint64
	var beforeBegin int64
	left := 0
	for _, p := range pieces {
		left += len(p.Octets)
	}
	for _, p := range pieces {
		if last := len(entries) - 1; last < 0 || p.Begin || len(entries[last]) > storeEntryOctets {
			entries = append(entries, make([]byte, 0, min(left, storeEntryOctets+len(p.Octets))))
			others.yield()
		}
		left -= len(p.Octets)
		if p.Begin {
			began, ended, beganAt, beforeBegin = true, false, s.disk.last+uint64(len(entries)), octetsOf(entries)
		}
		last := len(entries) - 1
		entries[last] = append(entries[last], p.Octets...)
		ended = ended || p.End
	}
	if err := s.disk.append(entries); err != nil {
		return false, err
	}
	if began {
		s.checkpoint, s.beganSize, s.wantedAt = beganAt, s.size+beforeBegin, time.Time{}
	}
	s.written.Add(uint64(octetsOf(entries)))
	s.size += octetsOf(entries)
	return ended && s.checkpoint > 0, nil
}

func octetsOf(entries [][]byte) (sum int64) {
	for _, e := range entries {
		sum += int64(len(e))
	}
	return sum
}

// endCheckpoint forgets what was said before it, unless a piece of it was lost.
func (s *store) endCheckpoint() error {
	begin := s.checkpoint
	s.checkpoint = 0
	s.mutex.Lock()
	gap := s.gap
	s.mutex.Unlock()
	if gap {
		return nil
	}
	s.size -= s.beganSize
	s.base = s.size
	return s.disk.forgetBefore(begin)
}

// askForCheckpoint asks when the log has grown or does not tell all.
func (s *store) askForCheckpoint() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	due := s.gap || s.size > max(checkpointOctets, checkpointGrowth*s.base)
	asked := time.Since(s.wantedAt) < 2*storeRetry // its first piece may have been lost
	if s.checkpoint > 0 || asked || !due || s.octets > maxPendingOctets/2 {
		return
	}
	if s.begin() {
		s.wantedAt = time.Now()
		s.gap = false // what was lost is said again; what is lost from now on raises it anew
	}
}
