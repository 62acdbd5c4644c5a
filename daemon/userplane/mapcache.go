// SPDX-License-Identifier: Apache-2.0

package userplane

// The map-cache while no daemon runs: a file of the messages of mapping sockets that would tell of its entries
// (docs/mapping-sockets.md). It is written at the end of a run, and read and removed by the next. A damaged one costs no more
// than Map-Requests.

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"loci/dataplane"
	"loci/mapsock"
)

// restorePiece is how many mappings are put at a time.
const restorePiece = 1 << 10

// save writes the map-cache of an engine.
func save(engine dataplane.Plane, file string) error {
	var octets []byte
	var m mapsock.Message
	for e := range engine.Mappings() {
		m.Reset(mapsock.TypeAdd)
		m.SetMapping(&e)
		var err error
		if octets, err = m.Append(octets); err != nil {
			return fmt.Errorf("%s: %w", e.Mapping.Prefix, err)
		}
	}
	if len(octets) == 0 {
		return remove(file)
	}
	fresh := file + ".new"
	if err := os.WriteFile(fresh, octets, 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, file)
}

// Restore puts the map-cache that an earlier run wrote into an engine, and removes the file.
func Restore(engine dataplane.Plane, file string, log *slog.Logger) {
	octets, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		err = put(engine, octets, time.Now())
	}
	if err != nil {
		log.Warn("the map-cache of an earlier run is not whole", "file", file, "error", err)
	}
	_ = remove(file)
}

// put puts the mappings that messages tell of, but for those that have expired.
func put(engine dataplane.Plane, octets []byte, now time.Time) error {
	var m mapsock.Message
	pieces := make([]dataplane.Operation, 0, restorePiece)
	for at := 0; at < len(octets); {
		length, err := m.Parse(octets[at:])
		if err != nil {
			return errors.Join(fmt.Errorf("at octet %d: %w", at, err), apply(engine, pieces))
		}
		at += length
		e, err := m.MapCacheEntry(now)
		if err != nil {
			return errors.Join(fmt.Errorf("at octet %d: %w", at, err), apply(engine, pieces))
		}
		if e.HasExpired(now) {
			continue
		}
		if pieces = append(pieces, dataplane.PutMapping{Entry: e}); len(pieces) == restorePiece {
			if err := apply(engine, pieces); err != nil {
				return err
			}
			pieces = pieces[:0]
		}
	}
	return apply(engine, pieces)
}

func apply(engine dataplane.Plane, operations []dataplane.Operation) error {
	return errors.Join(engine.Apply(operations...)...)
}

// remove removes a file, which may be gone.
func remove(file string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
