// SPDX-License-Identifier: Apache-2.0

package store

// The nonces of Map-Registers have to grow over restarts (RFC 9301 s.5.6). They follow the
// clock, which is enough where the clock goes on; a router without one that does, or whose
// clock was set back, has a file with a number that no run before went beyond. It is
// written before it is reached, so that a crash does no harm, and seldom. The Node's own
// affair is what nonces there are; nothing here sends anything.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

const (
	// nonceLead is how far the number in the file is ahead of the nonces: they are nanoseconds.
	nonceLead = uint64(time.Hour)
	// nonceLook is how often it is looked whether that is still so. A clock that jumps ahead by more than half of it, as
	// those without a battery do soon after they started, counts from then on: a look is cheap, a mark that is behind is not.
	nonceLook = 5 * time.Second
	// nonceSpare is more nonces than Map-Registers need until the first look, where the clock is behind.
	nonceSpare = 1 << 24
	// maxNonceFileOctets is more than any number has.
	maxNonceFileOctets = 32
)

// NonceFile is the file.
type NonceFile struct {
	path string
	log  *slog.Logger
	mark uint64 // what it says
}

// OpenNonceFile returns the number that nonces have to exceed as well. A file that does not exist
// counts as 0; so does one without a number, which is logged.
func OpenNonceFile(path string, now time.Time, log *slog.Logger) (f *NonceFile, last uint64, err error) {
	f = &NonceFile{path: path, log: log}
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, 0, fmt.Errorf("etr.nonce-file: %w", err)
	default:
		if last, err = parseNonce(text); err != nil {
			last = 0
			log.Error("the nonces of Map-Registers begin with the clock", "nonce_file", path, "error", err)
		}
	}
	// Until the first look nonces may follow the clock. Where they are ahead of it they are counted one by one: a daemon that
	// is started over and over does not take them further and further away from it.
	if err := f.write(max(last+nonceSpare, uint64(max(now.UnixNano(), 0))+nonceLead)); err != nil {
		return nil, 0, fmt.Errorf("etr.nonce-file: %w", err)
	}
	return f, last, nil
}

// parseNonce reads what write wrote. A number that leaves no room to grow is an error.
func parseNonce(text []byte) (uint64, error) {
	if len(text) > maxNonceFileOctets {
		return 0, fmt.Errorf("%d octets: want a number", len(text))
	}
	return strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 62)
}

// keep makes the file say more than the nonce, if it does not by far.
func (f *NonceFile) keep(nonce uint64) error {
	if nonce+nonceLead/2 <= f.mark {
		return nil
	}
	return f.write(nonce + nonceLead)
}

// write replaces the file at once, and returns when that outlives a crash.
func (f *NonceFile) write(mark uint64) error {
	temporary := f.path + ".new"
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(file, mark)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(temporary, f.path); err != nil {
		return err
	}
	f.mark = mark
	directory, err := os.Open(filepath.Dir(f.path))
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}

// Run looks after the file until the context ends. last returns false when the daemon stops.
func (f *NonceFile) Run(ctx context.Context, last func() (uint64, bool)) {
	ticker := time.NewTicker(nonceLook)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if nonce, ok := last(); ok {
				f.tell(f.keep(nonce))
			}
		case <-ctx.Done():
			return
		}
	}
}

// End writes the very last nonce: a restart in order leaves nothing out.
func (f *NonceFile) End(nonce uint64) { f.tell(f.write(nonce)) }

func (f *NonceFile) tell(err error) {
	if err != nil {
		f.log.Error("the last nonce of Map-Registers is not kept", "nonce_file", f.path, "error", err)
	}
}
