// SPDX-License-Identifier: Apache-2.0

package daemon

// The data plane together with policy routing: this host's own packets from EIDs
// need rules and routes that follow the Database, whoever changes it, this
// process's control plane or one behind a mapping socket.

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"sync"

	"loci/dataplane"
	"loci/dataplane/kernel"
)

// routedPlane is an engine whose Database policy routing follows.
type routedPlane struct {
	dataplane.Plane
	log *slog.Logger

	mu     sync.Mutex
	routes policyRoutes
}

// openRoutedPlane opens the kernel's engine, with policy routing that is not in force
// before sync.
func openRoutedPlane(options kernel.Options, routes policyRoutes, log *slog.Logger) (*routedPlane, error) {
	p := &routedPlane{log: log, routes: routes}
	p.mu.Lock() // resync waits until there is an engine
	defer p.mu.Unlock()
	options.TAPRemade = p.resync
	engine, err := kernel.Open(options)
	if err != nil {
		return nil, err
	}
	p.Plane = engine
	return p, nil
}

// resync follows the LISP interface, which took the routes by it along.
func (p *routedPlane) resync() {
	if err := p.sync(); err != nil {
		p.log.Error("policy routing by the new LISP interface", "error", err)
	}
}

// Apply changes the tables, then the rules and routes if the Database is concerned.
func (p *routedPlane) Apply(operations ...dataplane.Operation) []error {
	errs := p.Plane.Apply(operations...)
	if slices.ContainsFunc(operations, changesDatabase) {
		if err := p.sync(); err != nil {
			p.log.Error("policy routing of this host's own EIDs", "error", err)
		}
	}
	return errs
}

func changesDatabase(o dataplane.Operation) bool {
	switch o := o.(type) {
	case dataplane.PutDatabase, dataplane.DeleteDatabase:
		return true
	case dataplane.Flush:
		return o.Database
	}
	return false
}

// sync makes rules and routes what the Database says.
func (p *routedPlane) sync() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.routes.prefixes = databasePrefixes(p.Plane)
	return p.routes.apply()
}

// databasePrefixes are the IP prefixes of the Database, of all Instance-IDs.
func databasePrefixes(plane dataplane.Plane) (prefixes []netip.Prefix) {
	for entry := range plane.Database() {
		if prefix := entry.Prefix.Netip(); prefix.IsValid() && !slices.Contains(prefixes, prefix) {
			prefixes = append(prefixes, prefix)
		}
	}
	return prefixes
}

// Detach removes rules and routes, then the engine.
func (p *routedPlane) Detach(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(p.routes.remove(), p.Plane.Detach(ctx))
}
