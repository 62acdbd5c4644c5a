// SPDX-License-Identifier: Apache-2.0

package daemon

// The log on disk that the Map-Server's journal lies in: a write-ahead log in segments
// (github.com/tidwall/wal), each entry with a checksum in front. What a crash left half
// written at its end is cut off; what cannot be read at all is set aside, never deleted.
// It knows nothing of what the octets mean.

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
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// storeLog is an open log.
type storeLog struct {
	directory string
	lock      *os.File
	wal       *wal.Log
	last      uint64 // number of the last entry
}

// openLog opens or makes the log in a directory, which is this process's alone from then
// on.
func openLog(directory string, log *slog.Logger) (*storeLog, error) {
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
	s := &storeLog{directory: filepath.Join(directory, logDirectory), lock: lock}
	if err := s.open(log); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return s, nil
}

// open opens the log; a torn end is cut off, and a log that is no log set aside.
func (s *storeLog) open(log *slog.Logger) (err error) {
	options := &wal.Options{NoSync: true, SegmentSize: segmentOctets, SegmentCacheSize: 1, NoCopy: true, AllowEmpty: true, DirPerms: 0o700, FilePerms: 0o600}
	if s.wal, err = wal.Open(s.directory, options); errors.Is(err, wal.ErrCorrupt) {
		log.Warn("the journal ends inside an entry, as a crash leaves it: the rest of that entry is cut off", "directory", s.directory)
		if err := s.cutTornEnd(); err != nil {
			return err
		}
		s.wal, err = wal.Open(s.directory, options)
	}
	if errors.Is(err, wal.ErrCorrupt) {
		if err := s.setAside(log); err != nil {
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
func (s *storeLog) setAside(log *slog.Logger) error {
	for n := 1; ; n++ {
		aside := s.directory + ".unreadable-" + strconv.Itoa(n)
		if _, err := os.Lstat(aside); err == nil {
			continue
		}
		log.Error("the journal cannot be read and is set aside", "as", aside)
		return os.Rename(s.directory, aside)
	}
}

// cutTornEnd shortens the last segment to whole entries: a length, then that many octets.
func (s *storeLog) cutTornEnd() error {
	names, err := s.segments()
	if err != nil || len(names) == 0 {
		return err
	}
	path := filepath.Join(s.directory, names[len(names)-1])
	octets, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	whole := 0
	for whole < len(octets) {
		length, n := binary.Uvarint(octets[whole:])
		if n <= 0 || length > uint64(len(octets)-whole-n) {
			break
		}
		whole += n + int(length)
	}
	return os.Truncate(path, int64(whole))
}

func (s *storeLog) segments() ([]string, error) {
	entries, err := os.ReadDir(s.directory)
	var names []string
	for _, e := range entries {
		if len(e.Name()) == segmentNameLength {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, err
}

// read hands every entry to take, in order. It errs when the log cannot be read to its
// end; entries with a wrong checksum are left out and counted.
func (s *storeLog) read(take func([]byte)) (octets int64, damaged int, err error) {
	first, err := s.wal.FirstIndex()
	if err != nil {
		return 0, 0, err
	}
	for i := first; i <= s.last; i++ {
		entry, err := s.wal.Read(i)
		if err != nil {
			return octets, damaged, err
		}
		octets += int64(len(entry))
		if len(entry) < checksumOctets || crc32.Checksum(entry[checksumOctets:], castagnoli) != binary.BigEndian.Uint32(entry) {
			damaged++
			continue
		}
		take(entry[checksumOctets:])
	}
	return octets, damaged, s.wal.ClearCache()
}

// append writes entries; they are durable when it returns. Between them it lets others run.
func (s *storeLog) append(entries [][]byte) error {
	var others slice
	others.begin()
	for _, e := range entries {
		framed := binary.BigEndian.AppendUint32(make([]byte, 0, checksumOctets+len(e)), crc32.Checksum(e, castagnoli))
		if err := s.wal.Write(s.last+1, append(framed, e...)); err != nil {
			return err
		}
		s.last++
		others.yield()
	}
	return s.wal.Sync()
}

// forgetBefore removes what stands before an entry.
func (s *storeLog) forgetBefore(entry uint64) error { return s.wal.TruncateFront(entry) }

// reopen begins anew with what is on disk, after an error.
func (s *storeLog) reopen(log *slog.Logger) error {
	_ = s.wal.Close() // it failed before
	return s.open(log)
}

func (s *storeLog) close() error { return errors.Join(s.wal.Close(), s.lock.Close()) }
