// SPDX-License-Identifier: Apache-2.0

//go:build !(mips || mips64 || ppc64 || s390x || nokernel)

package kernelplane

// What a daemon left in the kernel: its map-cache, and its end, which needs neither the daemon nor a build that understands its
// tables.

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"loci/config"
	"loci/dataplane"
	"loci/dataplane/kernel"
	"loci/dataplane/kernel/pins"
)

// IsBusy reports whether an error says that another daemon has the data plane.
func IsBusy(err error) bool { return errors.Is(err, pins.ErrBusy) }

// WasLeft reports whether tables are in the kernel. Without the right to see them they count as not there.
func WasLeft(c *config.Config) bool {
	_, err := os.Stat(filepath.Dir(pins.MapsOf(c.Datapath.PinDirectory, "")))
	return err == nil
}

// MapCache is the map-cache in the kernel, as operations that put it into another engine.
func MapCache(c *config.Config, log *slog.Logger) (entries []dataplane.Operation, err error) {
	engine, err := kernel.Open(kernel.Options{PinDirectory: c.Datapath.PinDirectory, TAP: c.Datapath.Interface, Logger: log})
	if err != nil {
		return nil, err
	}
	for e := range engine.Mappings() {
		e.Mapping.Locators = slices.Clone(e.Mapping.Locators)
		entries = append(entries, dataplane.PutMapping{Entry: e})
	}
	return entries, engine.Close()
}

// Unmount unmounts the BPF file system that the daemon mounted for its pins, when nothing is in it any more.
func Unmount(c *config.Config) error { return pins.Unmount(c.Datapath.PinDirectory) }

// Remove removes programs, tables and the LISP interface that a daemon with that configuration left, in the calling thread's
// network namespace. It is not an error that nothing is left. An error that IsBusy is for a daemon that still runs, and stays as it is.
func Remove(c *config.Config) error {
	return kernel.Remove(kernel.Options{PinDirectory: c.Datapath.PinDirectory, TAP: c.Datapath.Interface})
}
