// SPDX-License-Identifier: Apache-2.0

package store

// The store of the Map-Server: what has to outlive a restart, from the Node's journal to
// the log on disk (RFC 9301 s.5.6). The loop never waits for a disk: it leaves pieces here,
// and a goroutine writes what has gathered, a few times a second, and sooner where it is much: what waits for a disk takes
// as long as it is long. At risk is what came within storeInterval, or while the write before it lasted, and until it is
// written itself. When the disk does not keep up or fails, the store says so, and begins with a checkpoint when it can write again.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"loci/control"
	"loci/internal/wakeup"
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

// Journal writes the journal.
type Journal struct {
	disk *diskLog
	log  *slog.Logger
	// BeginCheckpoint makes the Node begin a checkpoint; it must not wait.
	BeginCheckpoint func() bool

	mutex   sync.Mutex
	pending []control.Journal
	since   time.Time     // when the first of them came
	octets  int           // of pending
	gap     bool          // something was lost: the log does not tell all
	wake    wakeup.Signal // there is a piece
	plenty  wakeup.Signal // there are storePlenty octets

	// The rest is of the goroutine that writes.
	base, size   int64  // octets of the log after the last checkpoint, and now
	checkpoint   uint64 // the entry where the one under way began, 0 for none
	beganSize    int64
	wantedAt     time.Time // when a checkpoint was asked for that has not begun; zero for none
	written      atomic.Uint64
	failed, lost atomic.Uint64
	trouble      atomic.Pointer[storeTrouble] // nil while everything is stored
	slowest      atomic.Int64                 // nanoseconds from the first piece of a batch to its being durable
}

// Replay takes over a piece of the journal. One that is not whole is damaged somewhere, or holds more than the journal.
type Replay func(piece []byte, whole bool) error

// Stats are the counters.
type Stats struct {
	Written      uint64 // octets
	Lost, Failed uint64 // pieces, and writes
	SlowestWrite time.Duration
}

// Stats returns the counters.
func (s *Journal) Stats() Stats {
	return Stats{Written: s.written.Load(), Lost: s.lost.Load(), Failed: s.failed.Load(), SlowestWrite: time.Duration(s.slowest.Load())}
}

// Close closes what run has not.
func (s *Journal) Close() error { return s.disk.close() }

// OpenJournal opens the log and hands its content to replay, piece by piece.
func OpenJournal(directory string, log *slog.Logger, replay Replay) (*Journal, error) {
	began := time.Now()
	disk, err := openLog(directory, log)
	if err != nil {
		return nil, fmt.Errorf("map-server.state-directory: %w", err)
	}
	s := &Journal{disk: disk, log: log, wake: wakeup.New(), plenty: wakeup.New()}
	r, cut := restoring{log: log, replay: replay}, disk.cut
	s.size, err = disk.read(r.take)
	if err != nil {
		log.Error("the journal can be read in part only: looking for whole records in its files", "error", err)
		if r, err = s.beginAnew(replay); err != nil {
			return nil, err
		}
		s.gap = true
	}
	if len(cut) > 0 {
		s.gap = true
		r.salvage(cut)
	}
	s.gap = s.gap || r.pieces > 0
	r.tell(disk)
	log.Info("read the journal", "octets", s.size, "seconds", time.Since(began).Seconds())
	return s, nil
}

// restoring is what was found while the journal was read.
type restoring struct {
	log     *slog.Logger
	replay  Replay
	pieces  int // that were damaged
	octets  int // in no whole entry
	records int // known to be missing
	copied  []byte
	reason  error
}

// take takes over a piece of the log.
func (r *restoring) take(piece []byte, whole bool) {
	if err := r.replay(piece, whole); err != nil {
		r.count(err)
	}
	if !whole {
		r.pieces++
		r.copied = append(r.copied, piece[:min(len(piece), maxDamagedOctets-len(r.copied))]...)
	}
}

// salvage takes over the whole records of octets of which a copy is kept already.
func (r *restoring) salvage(octets []byte) {
	if err := r.replay(octets, false); err != nil {
		r.count(err)
	}
}

func (r *restoring) count(err error) {
	var damage *control.JournalDamage
	if !errors.As(err, &damage) {
		r.log.Error("a piece of the journal", "error", err)
		return
	}
	r.octets, r.records, r.reason = r.octets+damage.Octets, r.records+damage.Records, cmp.Or(r.reason, damage.Reason)
}

// tell says what was lost, and where a copy of the damaged pieces is.
func (r *restoring) tell(disk *diskLog) {
	if r.pieces == 0 && r.octets == 0 && r.records == 0 {
		return
	}
	attributes := []any{"octets", r.octets, "records-missing-at-least", r.records, "error", r.reason}
	if len(r.copied) > 0 {
		attributes = append(attributes, "pieces", r.pieces, "copy", disk.keepDamaged(r.copied, r.log))
	}
	r.log.Error("the journal is damaged: its whole records were taken over", attributes...)
}

// beginAnew puts the log aside, takes over the whole records in its files, and opens an empty one.
func (s *Journal) beginAnew(replay Replay) (restoring, error) {
	r := restoring{log: s.log, replay: replay}
	_ = s.disk.wal.Close() // it cannot be read
	aside, err := s.disk.setAside(s.log)
	if err != nil {
		return r, err
	}
	if err := readFiles(aside, r.salvage); err != nil {
		s.log.Error("files of the journal cannot be read", "error", err)
	}
	s.size = 0
	return r, s.disk.open(s.log, nil)
}

// Queue takes a piece; the loop calls it.
func (s *Journal) Queue(j control.Journal) {
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
	s.wake.Set()
	if s.octets >= storePlenty {
		s.plenty.Set()
	}
}

// Run writes until the context ends, then the rest.
func (s *Journal) Run(ctx context.Context) {
	s.askForCheckpoint() // of what was damaged
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
func (s *Journal) gather(ctx context.Context) {
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
func (s *Journal) flush(ctx context.Context) {
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
		s.tellFailure(err)
		s.recover(ctx, err)
	}
}

// storeTrouble is why the registrations are not stored.
type storeTrouble struct {
	since  time.Time
	reason string
}

// tellFailure logs a failure, and another one when its reason differs: it is tried every few seconds.
func (s *Journal) tellFailure(err error) {
	last := s.trouble.Load()
	now := &storeTrouble{since: time.Now(), reason: err.Error()}
	if last != nil {
		now.since = last.since
	}
	defer s.trouble.Store(now) // what the status tells, the log has told
	if last != nil && last.reason == now.reason {
		s.log.Debug("the registrations are still not stored", "error", err)
		return
	}
	s.log.Error("the registrations are not stored: a restart would lose what came since; trying again", "error", err, "every", storeRetry)
}

// Trouble says since when the registrations are not stored, and why, where there is a store.
func (s *Journal) Trouble() (since time.Time, reason string, failing bool) {
	if s == nil {
		return time.Time{}, "", false
	}
	t := s.trouble.Load()
	if t == nil {
		return time.Time{}, "", false
	}
	return t.since, t.reason, true
}

// recover opens the log again after an error, and wants everything said anew.
func (s *Journal) recover(ctx context.Context, failed error) {
	s.mutex.Lock()
	s.gap = true
	s.mutex.Unlock()
	s.checkpoint, s.wantedAt = 0, time.Time{}
	for ctx.Err() == nil {
		sleep(ctx, storeRetry)
		err := s.disk.reopen(s.log, failed)
		if err == nil {
			return
		}
		s.tellFailure(err)
	}
}

// write joins pieces to entries of some length and writes them. It reports whether a checkpoint has ended.
func (s *Journal) write(pieces []control.Journal) (ended bool, err error) {
	var entries [][]byte
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
func (s *Journal) endCheckpoint() error {
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
	if err := s.disk.forgetBefore(begin); err != nil {
		return err
	}
	if s.trouble.Swap(nil) != nil {
		s.log.Info("all registrations are stored again")
	}
	return nil
}

// askForCheckpoint asks when the log has grown or does not tell all.
func (s *Journal) askForCheckpoint() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	due := s.gap || s.size > max(checkpointOctets, checkpointGrowth*s.base)
	asked := time.Since(s.wantedAt) < 2*storeRetry // its first piece may have been lost
	if s.checkpoint > 0 || asked || !due || s.octets > maxPendingOctets/2 {
		return
	}
	if s.BeginCheckpoint() {
		s.wantedAt = time.Now()
		s.gap = false // the checkpoint repeats what was lost; later losses raise it again
	}
}
