// SPDX-License-Identifier: Apache-2.0

package engines

// Replacing the engine while the daemon runs. What can be found out beforehand is: then the old engine does not notice. Both have
// the LISP interface by the same name, so the old one ends before the new one begins; what fails then brings the old one back.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"loci/config"
	"loci/dataplane"
	"loci/dataplane/user"
)

// opened is what the data plane was opened with.
type opened struct {
	plane    *plane
	config   *config.Config
	mappings int
	log      *slog.Logger
	remade   func()
	lost     error // why no engine is open any more
}

// Change replaces the engine if the configuration chooses another one than is open, with all that its tables hold; it begins with
// these settings. After an error the engine from before forwards as it did; after dataplane.ErrClosed none is open, and none will be:
// the tables are lost.
func (c *Choice) Change(to *config.Config, settings dataplane.Settings) error {
	switch {
	case c.opened.plane == nil:
		return errors.New("the data plane was not opened here")
	case c.opened.lost != nil:
		return c.opened.lost
	}
	wanted, why, err := c.wants(to)
	if err != nil {
		return fmt.Errorf("datapath.engine %s: %w", to.Datapath.Engine, err)
	}
	if wanted == c.user {
		c.why, c.opened.config = why, to
		return nil
	}
	if wanted {
		err := undone(to) // which names the place in the file
		if err == nil {
			err = user.Check(&settings)
		}
		if err != nil {
			return fmt.Errorf("datapath.engine %s: %w", to.Datapath.Engine, err)
		}
	}
	return c.replace(to, settings, wanted, why)
}

// wants reports whether a configuration chooses the engine in user space, and why not the kernel's where that comes first.
func (c *Choice) wants(of *config.Config) (inUser bool, why, err error) {
	if of.Datapath.Engine == config.EngineUser {
		return true, nil, nil
	}
	_, err = c.kernel.PinTrouble(of)
	if err == nil {
		err = c.kernel.Refuses()
	}
	if err != nil && of.Datapath.Engine == config.EngineAuto {
		return true, err, nil
	}
	return false, nil, err
}

func (c *Choice) replace(to *config.Config, settings dataplane.Settings, inUser bool, why error) error {
	return c.opened.plane.replace(func(old dataplane.Plane) (dataplane.Plane, error) {
		return c.exchange(old, to, settings, inUser, why)
	})
}

// exchange ends an engine and opens another one, or the one from before; nil where neither comes.
func (c *Choice) exchange(
	old dataplane.Plane, to *config.Config, settings dataplane.Settings, inUser bool, why error,
) (dataplane.Plane, error) {
	tables, before := tablesOf(old), old.Settings()
	began := time.Now()
	if err := old.Detach(context.Background()); err != nil {
		c.opened.log.Warn("the data plane from before did not end cleanly", "error", err)
	}
	fresh, err := c.begin(to, inUser, settings, tables)
	if err == nil {
		c.user, c.why, c.opened.config = inUser, why, to
		name, _ := c.Chosen()
		c.opened.log.Info("the data plane was replaced", "engine", name, "took", time.Since(began).Round(time.Millisecond))
		return fresh, nil
	}
	err = fmt.Errorf("datapath.engine %s: %w", to.Datapath.Engine, err)
	again, againErr := c.begin(c.opened.config, c.user, before, tables)
	if againErr != nil {
		c.opened.lost = fmt.Errorf("%w, nothing is forwarded until a restart: the engine from before does not come back: %w", dataplane.ErrClosed, againErr)
		return nil, errors.Join(err, c.opened.lost)
	}
	return again, err
}

// begin opens an engine with settings and tables.
func (c *Choice) begin(of *config.Config, inUser bool, settings dataplane.Settings, tables []dataplane.Operation) (dataplane.Plane, error) {
	o := c.opened
	open := c.kernelEngine
	if inUser {
		open = userEngine
	}
	engine, err := open(of, o.mappings, o.log, o.remade)
	if err != nil && inUser && of.Datapath.TUN == "" { // the TUN that it made stays, by the name that the kernel's engine needs
		return nil, errors.Join(err, user.Remove(of.Datapath.Interface))
	}
	if err != nil {
		return nil, err
	}
	if err := errors.Join(engine.Apply(dataplane.SetSettings{Settings: settings})...); err != nil {
		return nil, errors.Join(err, engine.Detach(context.Background()))
	}
	for piece := range slices.Chunk(tables, tablePiece) {
		if err := errors.Join(engine.Apply(piece...)...); err != nil {
			o.log.Warn("the new engine does not take over all that the tables hold", "error", err)
		}
	}
	return engine, nil
}

// tablePiece is how many entries are put at a time.
const tablePiece = 1 << 10

// tablesOf are the tables of an engine, as operations that put them into another.
func tablesOf(engine dataplane.Plane) (tables []dataplane.Operation) {
	for e := range engine.Database() {
		e.Locators = slices.Clone(e.Locators)
		tables = append(tables, dataplane.PutDatabase{Entry: e})
	}
	for path, state := range engine.LocatorStates() {
		tables = append(tables, dataplane.PutLocatorState{RLOC: path.RLOC, Behind: path.Behind, State: state})
	}
	for e := range engine.Mappings() {
		e.Mapping.Locators = slices.Clone(e.Mapping.Locators)
		tables = append(tables, dataplane.PutMapping{Entry: e})
	}
	for f := range engine.Flows() {
		tables = append(tables, dataplane.PutFlow{Flow: f.Flow, Path: f.Path})
	}
	return tables
}
