// SPDX-License-Identifier: Apache-2.0

package userplane

// The user engine as the daemon opens, closes and removes it.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"loci/config"
	"loci/dataplane"
	"loci/dataplane/user"
)

// Plane is the engine, whose map-cache outlives it in a file.
type Plane struct {
	*user.Engine
	mapCache string // its file
	log      *slog.Logger
}

// Open opens the data plane of a configuration, with the map-cache that an earlier run left. remade is called when the LISP
// interface was made anew.
func Open(c *config.Config, mappings int, log *slog.Logger, remade func()) (*Plane, error) {
	engine, err := user.Open(user.Options{
		Interface: c.Datapath.Interface, Descriptors: c.Datapath.TUN.Descriptors(), Socket: c.Datapath.TUN.Socket(),
		Mappings: mappings, Log: log, Remade: remade,
	})
	if err != nil {
		return nil, fmt.Errorf("data plane in user space: %w", err)
	}
	p := &Plane{Engine: engine, mapCache: MapCacheFile(c), log: log}
	Restore(engine, p.mapCache, log)
	return p, nil
}

// MapCacheFile is where the map-cache is while no daemon runs: beside the control socket.
func MapCacheFile(c *config.Config) string {
	return strings.TrimSuffix(c.Control.Socket, filepath.Ext(c.Control.Socket)) + ".map-cache"
}

// Close ends forwarding, and keeps the map-cache for the next run.
func (p *Plane) Close() error {
	if err := save(p.Engine, p.mapCache); err != nil {
		p.log.Warn("the map-cache is not kept for the next start", "error", err)
	}
	return p.Engine.Close()
}

// Detach ends forwarding and removes what is left of it.
func (p *Plane) Detach(ctx context.Context) error {
	return errors.Join(p.Engine.Detach(ctx), remove(p.mapCache))
}

// Remove removes what a stopped daemon left: the TUN interface, and the file of the map-cache.
func Remove(c *config.Config) error {
	return errors.Join(user.Remove(c.Datapath.Interface), remove(MapCacheFile(c)))
}

var _ dataplane.HostRouted = (*Plane)(nil)
