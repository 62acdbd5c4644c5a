// SPDX-License-Identifier: Apache-2.0

// One run's directory: configurations, sockets and logs of its daemons, and a bpf file system of its own for what they pin.
// A record names the run that made it, so that the next run removes what a crashed one left, and nothing of one that lives.

package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"loci/internal/testnet"
)

const (
	networkPrefix     = "loci-bench"
	instanceDirectory = "/run/loci-bench"
	recordFile        = "run.json"

	// recordGrace is how long a directory may be without its record.
	recordGrace = time.Minute
)

// instance is the directory of one run.
type instance string

func newInstance(name string) (instance, error) {
	in := instance(filepath.Join(instanceDirectory, name))
	if err := in.fill(); err != nil {
		return "", errors.Join(err, in.remove())
	}
	return in, nil
}

func (in instance) fill() error {
	self, err := testnet.Self()
	if err != nil {
		return err
	}
	record, err := json.Marshal(self)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(in.pins(), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(in.path(recordFile), record, 0o644); err != nil {
		return err
	}
	if err := unix.Mount("bpf", in.pins(), "bpf", 0, "mode=0700"); err != nil {
		return fmt.Errorf("mount a bpf file system at %s: %w", in.pins(), err)
	}
	return nil
}

func (in instance) path(name string) string { return filepath.Join(string(in), name) }
func (in instance) pins() string            { return in.path("bpf") }

// remove takes everything away. A directory whose file system cannot be unmounted is left.
func (in instance) remove() error {
	err := unix.Unmount(in.pins(), unix.MNT_DETACH)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s: %w", in.pins(), err)
	}
	return os.RemoveAll(string(in))
}

// removeLeftovers removes what dead runs left.
func removeLeftovers() error {
	if _, err := testnet.Sweep(networkPrefix); err != nil {
		return err
	}
	entries, err := os.ReadDir(instanceDirectory)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, entry := range entries {
		in := instance(filepath.Join(instanceDirectory, entry.Name()))
		if !in.isLeftover() {
			continue
		}
		if err := in.remove(); err != nil {
			return err
		}
	}
	return nil
}

func (in instance) isLeftover() bool {
	encoded, err := os.ReadFile(in.path(recordFile))
	var creator testnet.Creator
	if err != nil || json.Unmarshal(encoded, &creator) != nil {
		info, err := os.Stat(string(in))
		return err == nil && time.Since(info.ModTime()) > recordGrace
	}
	return !creator.Alive()
}
