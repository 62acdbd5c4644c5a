// SPDX-License-Identifier: Apache-2.0

// One run's directory: configurations, control sockets and logs of its daemons, and a bpf file system of its own for what
// they pin. With the file system goes every pin, whoever made it.
//
// A record in the directory names the run that made it, so that the next run can remove what a crashed one left.
// It never removes the directory of a run that lives.

package demo

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
	networkPrefix     = "loci-demo"
	instanceDirectory = "/run/loci-demo"
	recordFile        = "run.json"

	// recordGrace is how long a directory may be without its record.
	recordGrace = time.Minute
)

// instance is the directory of one run.
type instance struct {
	directory string
	record    instanceRecord
}

type instanceRecord struct {
	testnet.Creator
	Kept bool `json:"kept"`
}

// newInstance makes the directory, its record, and the bpf file system in it.
func newInstance(name string) (*instance, error) {
	self, err := testnet.Self()
	if err != nil {
		return nil, err
	}
	in := &instance{directory: filepath.Join(instanceDirectory, name), record: instanceRecord{Creator: self}}
	if err := in.fill(); err != nil {
		return nil, errors.Join(err, in.remove())
	}
	return in, nil
}

func (in *instance) fill() error {
	if err := os.MkdirAll(in.directory, 0o755); err != nil {
		return err
	}
	if err := in.store(); err != nil {
		return err
	}
	if err := os.Mkdir(in.pins(), 0o700); err != nil {
		return err
	}
	if err := unix.Mount("bpf", in.pins(), "bpf", 0, "mode=0700"); err != nil {
		return fmt.Errorf("mount a bpf file system at %s: %w", in.pins(), err)
	}
	return nil
}

func (in *instance) store() error {
	encoded, err := json.Marshal(in.record)
	if err != nil {
		return err
	}
	return os.WriteFile(in.path(recordFile), encoded, 0o644)
}

// keep marks the run as meant to stay.
func (in *instance) keep() error {
	in.record.Kept = true
	return in.store()
}

// path is a file of the run.
func (in *instance) path(name string) string { return filepath.Join(in.directory, name) }

// pins is where the run's daemons pin their maps and links.
func (in *instance) pins() string { return in.path("bpf") }

// remove takes everything away.
func (in *instance) remove() error { return removeInstance(in.directory) }

// removeInstance unmounts first: pins are never removed one by one, and a directory that is still mounted is left.
func removeInstance(directory string) error {
	err := unix.Unmount(filepath.Join(directory, "bpf"), unix.MNT_DETACH)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s/bpf: %w", directory, err)
	}
	return os.RemoveAll(directory)
}

// removeLeftovers removes what dead runs left: namespaces with all that runs in them first, then their directories. Kept
// networks are leftovers only when they are asked for.
func removeLeftovers(alsoKept bool) ([]string, error) {
	sweep := testnet.Sweep
	if alsoKept {
		sweep = testnet.SweepKept
	}
	removed, err := sweep(networkPrefix)
	if err != nil {
		return removed, err
	}
	entries, err := os.ReadDir(instanceDirectory)
	if errors.Is(err, fs.ErrNotExist) {
		return removed, nil
	}
	if err != nil {
		return removed, err
	}
	for _, entry := range entries {
		directory := filepath.Join(instanceDirectory, entry.Name())
		if !isLeftover(directory, alsoKept) {
			continue
		}
		if err := removeInstance(directory); err != nil {
			return removed, err
		}
		removed = append(removed, directory)
	}
	return removed, nil
}

// isLeftover leaves a young directory without a readable record alone: a run that has just begun writes it in this moment.
func isLeftover(directory string, alsoKept bool) bool {
	encoded, err := os.ReadFile(filepath.Join(directory, recordFile))
	var r instanceRecord
	if err != nil || json.Unmarshal(encoded, &r) != nil {
		info, err := os.Stat(directory)
		return err == nil && time.Since(info.ModTime()) > recordGrace
	}
	return !r.Alive() && (alsoKept || !r.Kept)
}
