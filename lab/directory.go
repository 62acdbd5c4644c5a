// SPDX-License-Identifier: Apache-2.0

package lab

// One run's directory: configurations, control sockets and logs of its daemons, and a bpf file system of its own for what
// they pin. With the file system goes every pin.
//
// A record in the directory names the run that made it, so that the next run can remove what a crashed one left. It never
// removes the directory of a run that lives.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"loci/internal/testnet"
)

const (
	recordFile = "run.json"

	// recordGrace is how long a directory may be without its record.
	recordGrace = time.Minute
)

// Runs are the runs of one command. Parent holds their directories; the names of their networks begin with Prefix.
type Runs struct {
	Parent, Prefix string
}

// Directory is that of one run.
type Directory struct {
	path   string
	record record
}

type record struct {
	testnet.Creator
	Kept bool `json:"kept"`
}

// Directory is that of the run with a name, without looking whether it is there.
func (r Runs) Directory(name string) *Directory {
	return &Directory{path: filepath.Join(r.Parent, name)}
}

// NewDirectory makes the directory of a run, its record, and the bpf file system in it. After an error there is none.
func (r Runs) NewDirectory(name string) (*Directory, error) {
	self, err := testnet.Self()
	if err != nil {
		return nil, err
	}
	d := r.Directory(name)
	d.record.Creator = self
	if err := d.fill(); err != nil {
		return nil, errors.Join(err, d.Remove())
	}
	return d, nil
}

func (d *Directory) fill() error {
	if err := os.MkdirAll(d.path, 0o755); err != nil {
		return err
	}
	if err := d.store(); err != nil {
		return err
	}
	if err := os.Mkdir(d.Pins(), 0o700); err != nil {
		return err
	}
	err := unix.Mount("bpf", d.Pins(), "bpf", 0, "mode=0700")
	if errors.Is(err, unix.ENODEV) { // a kernel without: the preflight has refused who needs it
		err = nil
	}
	if err != nil {
		return fmt.Errorf("mount a bpf file system at %s: %w", d.Pins(), err)
	}
	return nil
}

func (d *Directory) store() error {
	encoded, err := json.Marshal(d.record)
	if err != nil {
		return err
	}
	return os.WriteFile(d.Path(recordFile), encoded, 0o644)
}

// Keep marks the run as meant to stay.
func (d *Directory) Keep() error {
	d.record.Kept = true
	return d.store()
}

// Path is a file of the run.
func (d *Directory) Path(name string) string { return filepath.Join(d.path, name) }

// Pins is where the run's daemons pin their maps and links.
func (d *Directory) Pins() string { return d.Path("bpf") }

// Remove takes everything away.
func (d *Directory) Remove() error { return remove(d.path) }

// remove unmounts first: pins are never removed one by one, and a directory that is still mounted is left.
func remove(directory string) error {
	err := unix.Unmount(filepath.Join(directory, "bpf"), unix.MNT_DETACH)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s/bpf: %w", directory, err)
	}
	return os.RemoveAll(directory)
}

// Remove removes what kept and crashed runs of several commands left, and returns the names.
func Remove(all ...Runs) (names []string, err error) {
	if rights := testnet.MissingRights(); len(rights) > 0 {
		return nil, fmt.Errorf("removing networks %w (missing: %s)", ErrNeedsRoot, strings.Join(rights, ", "))
	}
	for _, r := range all {
		removed, failed := r.RemoveLeftovers(true)
		names, err = append(names, removed...), errors.Join(err, failed)
	}
	return names, err
}

// RemoveLeftovers removes what dead runs left: namespaces with all that runs in them first, then their directories, and
// returns their names. Kept runs are leftovers only when they are asked for.
func (r Runs) RemoveLeftovers(alsoKept bool) ([]string, error) {
	sweep := testnet.Sweep
	if alsoKept {
		sweep = testnet.SweepKept
	}
	removed, err := sweep(r.Prefix)
	if err != nil {
		return removed, err
	}
	entries, err := os.ReadDir(r.Parent)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return removed, err
	}
	for _, entry := range entries {
		directory := filepath.Join(r.Parent, entry.Name())
		if !isLeftover(directory, alsoKept) {
			continue
		}
		if err := remove(directory); err != nil {
			return removed, err
		}
		removed = append(removed, directory)
	}
	return removed, nil
}

// isLeftover leaves a young directory without a readable record alone: a run that has just begun writes it in this moment.
func isLeftover(directory string, alsoKept bool) bool {
	encoded, err := os.ReadFile(filepath.Join(directory, recordFile))
	var creator record
	if err != nil || json.Unmarshal(encoded, &creator) != nil {
		info, err := os.Stat(directory)
		return err == nil && time.Since(info.ModTime()) > recordGrace
	}
	return !creator.Alive() && (alsoKept || !creator.Kept)
}
