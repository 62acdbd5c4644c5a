// SPDX-License-Identifier: Apache-2.0

package store

// The log on disk that the Map-Server's journal lies in: a write-ahead log in segments
// (github.com/tidwall/wal), each entry with a checksum in front. What a crash left half
// written at its end is cut off, and what cannot be read is set aside: a few copies of it are
// kept. It knows nothing of what the octets mean.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/tidwall/wal"
)

const (
	// segmentOctets is the length of a file of the log; the last one is in memory too.
	segmentOctets = 4 << 20
	// checksumOctets stand before what they protect.
	checksumOctets = 4
	// segmentNameLength is that of the names that the library gives to segments.
	segmentNameLength = 20
	lockFile          = "lock"
	logDirectory      = "journal"

	// maxAside bounds the copies of damaged journals that are kept, of each kind: directories that cannot be read, and pieces.
	maxAside         = 4
	asideUnreadable  = ".unreadable-"
	asideDamaged     = ".damaged-"
	maxDamagedOctets = 16 << 20 // of pieces that are copied at one start
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// diskLog is an open log.
type diskLog struct {
	directory string
	lock      *os.File
	wal       *wal.Log
	last      uint64 // number of the last entry
	cut       []byte // what was cut off the end when it was opened
}

// openLog opens or makes the log in a directory, which is this process's alone from then
// on.
func openLog(directory string, log *slog.Logger) (*diskLog, error) {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(directory, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("%s is in use by another daemon: %w", directory, err), lock.Close())
	}
	s := &diskLog{directory: filepath.Join(directory, logDirectory), lock: lock}
	if err := s.open(log, nil); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return s, nil
}

// open opens the log; a torn end is cut off, and a log that cannot be read is set aside. failed is the error of the write that may have torn
// it; nil where an earlier run left the log.
func (s *diskLog) open(log *slog.Logger, failed error) (err error) {
	s.cut = nil
	options := &wal.Options{NoSync: true, SegmentSize: segmentOctets, SegmentCacheSize: 1, NoCopy: true, AllowEmpty: true, DirPerms: 0o700, FilePerms: 0o600}
	if s.wal, err = wal.Open(s.directory, options); errors.Is(err, wal.ErrCorrupt) {
		if s.cut, err = s.cutTornEnd(); err != nil {
			return err
		}
		if failed != nil {
			log.Info("what the failed write left at the end of the journal is cut off", "octets", len(s.cut), "directory", s.directory)
		} else if len(s.cut) > 0 {
			log.Warn("the journal ends inside an entry, as a crash or a damaged disk leaves it: the end is cut off", "octets", len(s.cut), "copy", s.keepDamaged(s.cut, log))
		}
		s.wal, err = wal.Open(s.directory, options)
	}
	if errors.Is(err, wal.ErrCorrupt) {
		if _, err := s.setAside(log); err != nil {
			return err
		}
		s.wal, err = wal.Open(s.directory, options)
	}
	if err != nil {
		return fmt.Errorf("open the journal in %s: %w", s.directory, err)
	}
	s.last, err = s.wal.LastIndex()
	return err
}

// setAside gives the log's directory another name, for a person to look at.
func (s *diskLog) setAside(log *slog.Logger) (as string, err error) {
	as = s.aside(asideUnreadable, log)
	log.Error("the journal cannot be read and is set aside", "as", as)
	return as, os.Rename(s.directory, as)
}

// keepDamaged writes octets that cannot be read to a file of their own, for a person to look at, and returns its name.
func (s *diskLog) keepDamaged(octets []byte, log *slog.Logger) (as string) {
	as = s.aside(asideDamaged, log)
	if err := os.WriteFile(as, octets, 0o600); err != nil {
		log.Error("no copy of the damaged piece of the journal is kept", "error", err)
		return "none"
	}
	return as
}

// aside is the next name of a kind; the oldest copies beyond maxAside are removed.
func (s *diskLog) aside(kind string, log *slog.Logger) string {
	found, _ := filepath.Glob(s.directory + kind + "*") // the pattern is well-formed
	var numbers []int
	for _, path := range found {
		if n, err := strconv.Atoi(strings.TrimPrefix(path, s.directory+kind)); err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	next := 1
	if len(numbers) > 0 {
		next = numbers[len(numbers)-1] + 1
	}
	for _, n := range numbers[:max(len(numbers)-maxAside+1, 0)] {
		oldest := s.directory + kind + strconv.Itoa(n)
		log.Warn("an old copy of a damaged journal is removed", "copy", oldest, "kept", maxAside, "error", os.RemoveAll(oldest))
	}
	return s.directory + kind + strconv.Itoa(next)
}

// cutTornEnd shortens the last segment to whole entries: a length, then that many octets. It returns what it cut off.
func (s *diskLog) cutTornEnd() (cut []byte, err error) {
	names, err := segments(s.directory)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	path := filepath.Join(s.directory, names[len(names)-1])
	octets, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	whole := 0
	for whole < len(octets) {
		length, n := binary.Uvarint(octets[whole:])
		if n <= 0 || length > uint64(len(octets)-whole-n) {
			break
		}
		whole += n + int(length)
	}
	return octets[whole:], os.Truncate(path, int64(whole))
}

func segments(directory string) ([]string, error) {
	entries, err := os.ReadDir(directory)
	var names []string
	for _, e := range entries {
		if len(e.Name()) == segmentNameLength {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, err
}

// read hands every entry to take, in order, and says whether it is whole: its checksum is right. It errs when the log cannot be
// read to its end.
func (s *diskLog) read(take func(entry []byte, whole bool)) (octets int64, err error) {
	first, err := s.wal.FirstIndex()
	if err != nil {
		return 0, err
	}
	for i := first; i <= s.last; i++ {
		entry, err := s.wal.Read(i)
		if err != nil {
			return octets, err
		}
		octets += int64(len(entry))
		if len(entry) < checksumOctets || crc32.Checksum(entry[checksumOctets:], castagnoli) != binary.BigEndian.Uint32(entry) {
			take(entry, false)
			continue
		}
		take(entry[checksumOctets:], true)
	}
	return octets, s.wal.ClearCache()
}

// readFiles hands the files of a log that was set aside to take, in order.
func readFiles(directory string, take func(octets []byte)) error {
	names, err := segments(directory)
	for _, name := range names {
		octets, readErr := os.ReadFile(filepath.Join(directory, name))
		err = errors.Join(err, readErr)
		take(octets)
	}
	return err
}

// append writes entries; they are durable when it returns.
func (s *diskLog) append(entries [][]byte) error {
	for _, e := range entries {
		framed := binary.BigEndian.AppendUint32(make([]byte, 0, checksumOctets+len(e)), crc32.Checksum(e, castagnoli))
		if err := s.wal.Write(s.last+1, append(framed, e...)); err != nil {
			return err
		}
		s.last++
	}
	return s.wal.Sync()
}

// forgetBefore removes what stands before an entry.
func (s *diskLog) forgetBefore(entry uint64) error { return s.wal.TruncateFront(entry) }

// reopen opens the log again after an error.
func (s *diskLog) reopen(log *slog.Logger, failed error) error {
	_ = s.wal.Close() // it failed before
	return s.open(log, failed)
}

func (s *diskLog) close() error { return errors.Join(s.wal.Close(), s.lock.Close()) }
