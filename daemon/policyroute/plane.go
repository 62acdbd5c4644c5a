// SPDX-License-Identifier: Apache-2.0

package policyroute

// The data plane together with policy routing: this host's own packets from EIDs
// need rules and routes that follow the Database, whether this
// process's control plane changes it or one behind a mapping socket. A change of the Database is followed in the
// background, so that changes which come together cost one comparison with the kernel.

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"loci/config"
	"loci/daemon/hostnet"
	"loci/dataplane"
	"loci/internal/wakeup"
	"loci/lisp"
)

const (
	// resyncTime is for how long rules and routes are tried to be made by a LISP interface that was made anew.
	resyncTime  = time.Second
	resyncPause = 20 * time.Millisecond
)

// Plane is an engine whose Database policy routing follows.
type Plane struct {
	dataplane.Plane
	log *slog.Logger

	mu     sync.Mutex
	routes Policy
	told   []string // warnings that stand
	ended  bool     // nothing of ours is in the kernel any more, and nothing is to come back
	always bool     // packets go to the LISP interface whatever the engine is
	held   bool     // rules and routes stay as they are: no engine is open, which would know the Database

	changed wakeup.Signal // filled while rules and routes do not follow a change of the Database yet

	hasSite bool // the configuration has interfaces to the site
}

// Open opens an engine, whose policy routing begins with FollowHost. The engine
// calls remade when it has made the LISP interface anew.
func Open(open func(remade func()) (dataplane.Plane, error), routes Policy, hasSite bool, log *slog.Logger) (*Plane, error) {
	p := &Plane{log: log, routes: routes, hasSite: hasSite, changed: wakeup.New()}
	if err := p.open(open); err != nil {
		return nil, err
	}
	return p, nil
}

// open opens the engine. resync waits until there is one.
func (p *Plane) open(open func(remade func()) (dataplane.Plane, error)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	engine, err := open(p.resync)
	if err != nil {
		return err
	}
	p.Plane = engine
	// The tables of such an engine begin empty: what an earlier run left leads packets of EIDs to it until they are filled.
	if routed, ok := engine.(dataplane.HostRouted); ok {
		p.routes.additive = routed.HostRouted()
	}
	return nil
}

// Change has the engine replaced. Meanwhile, and after dataplane.ErrClosed, packets of EIDs reach the LISP interface, or end: none
// leaves without encapsulation.
func (p *Plane) Change(replace func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.always = true
	before := p.syncLocked(p.Settings())
	p.always = false
	if before != nil {
		return fmt.Errorf("policy routing: %w", before)
	}
	err := replace()
	p.held = errors.Is(err, dataplane.ErrClosed)
	return errors.Join(err, p.syncLocked(p.Settings()))
}

// resync follows the LISP interface, which took the routes by it along. It tries for resyncTime: the interface may go once more.
func (p *Plane) resync() {
	err := p.sync()
	for until := time.Now().Add(resyncTime); err != nil && time.Now().Before(until); err = p.sync() {
		time.Sleep(resyncPause)
	}
	if err != nil {
		p.log.Error("policy routing by the new LISP interface", "error", err)
	}
}

// Reconfigure follows a configuration that was read again, on the host as it is. One that the kernel does not take is
// not followed.
func (p *Plane) Reconfigure(c *config.Config, view hostnet.View) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.routes.config == c {
		return nil
	}
	p.routes.sources.view = view
	before, hadSite := p.routes, p.hasSite
	p.routes, p.hasSite = p.routes.reconfigured(c), len(c.Interfaces.Site) > 0
	err := p.syncLocked(p.Settings())
	if err == nil {
		return nil
	}
	p.routes, p.hasSite = before, hadSite
	_ = p.syncLocked(p.Settings()) // what failed before fails again, and is tried again when the host changes
	return fmt.Errorf("policy routing: %w", err)
}

// Apply changes the tables, then the rules and routes if they are concerned: by settings before it
// returns, by the Database soon after.
func (p *Plane) Apply(operations ...dataplane.Operation) []error {
	prepared := p.prepare(operations)
	errs := p.Plane.Apply(operations...)
	if slices.ContainsFunc(operations, changesDatabase) {
		p.begin()
	}
	switch {
	case prepared:
	case slices.ContainsFunc(operations, isSettings):
		p.follow()
	case slices.ContainsFunc(operations, changesRoutes):
		p.changed.Set()
	}
	return errs
}

// Run follows the Database until the context ends.
func (p *Plane) Run(ctx context.Context) {
	for {
		select {
		case <-p.changed:
			p.follow()
		case <-ctx.Done():
			return
		}
	}
}

// begin has what an earlier run left go where it is not wanted: the Database is known.
func (p *Plane) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.routes.additive {
		p.routes.additive = false
		p.changed.Set()
	}
}

// Settle returns when rules and routes follow the Database. The caller makes sure that it does not change meanwhile.
func (p *Plane) Settle() {
	p.begin()
	select {
	case <-p.changed:
		p.follow()
	default:
	}
}

// follow is sync for callers that can do nothing about an error.
func (p *Plane) follow() {
	if err := p.sync(); err != nil {
		p.log.Error("policy routing", "error", err)
	}
}

func isSettings(o dataplane.Operation) bool {
	_, is := o.(dataplane.SetSettings)
	return is
}

// TryApply implements dataplane.PromptPlane. What concerns rules and routes takes its time.
func (p *Plane) TryApply(operations ...dataplane.Operation) (errs []error, done bool) {
	engine, ok := p.Plane.(dataplane.PromptPlane)
	if !ok || slices.ContainsFunc(operations, changesRoutes) {
		return nil, false
	}
	return engine.TryApply(operations...)
}

// TellAtOnce implements dataplane.PromptPlane.
func (p *Plane) TellAtOnce(take func([]dataplane.Event) bool) {
	if engine, ok := p.Plane.(dataplane.PromptPlane); ok {
		engine.TellAtOnce(take)
	}
}

// InterfaceStates implements dataplane.InterfaceReporter.
func (p *Plane) InterfaceStates() []dataplane.InterfaceState {
	if engine, ok := p.Plane.(dataplane.InterfaceReporter); ok {
		return engine.InterfaceStates()
	}
	return nil
}

// prepare leads packets to a sibling before the data plane lets them go their native way,
// and reports that rules and routes are as they have to be afterwards.
func (p *Plane) prepare(operations []dataplane.Operation) bool {
	if len(operations) != 1 {
		return false
	}
	settings, ok := operations[0].(dataplane.SetSettings)
	if !ok {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.siblingForwards(settings.Settings) || p.siblingForwards(p.Settings()) {
		return false
	}
	if err := p.syncLocked(settings.Settings); err != nil {
		p.log.Error("policy routing to a sibling", "error", err)
		return false
	}
	return true
}

// siblingForwards reports whether settings mean that a sibling gets the site's packets: the
// configuration has siblings and interfaces to the site, and none of them is watched. The caller holds mu.
func (p *Plane) siblingForwards(s dataplane.Settings) bool {
	isSite := func(i dataplane.Interface) bool { return i.Side == dataplane.SideSite }
	return p.hasSite && len(p.routes.siblings.siblings) > 0 && len(s.Interfaces) > 0 && !slices.ContainsFunc(s.Interfaces, isSite)
}

// PathMTU implements dataplane.PathReporter.
func (p *Plane) PathMTU(rloc lisp.RLOC) (octets int, learnt bool) {
	if engine, ok := p.Plane.(dataplane.PathReporter); ok {
		return engine.PathMTU(rloc)
	}
	return 0, false
}

// EchoNonce implements dataplane.EchoReporter.
func (p *Plane) EchoNonce(rloc lisp.RLOC) dataplane.EchoState {
	if engine, ok := p.Plane.(dataplane.EchoReporter); ok {
		return engine.EchoNonce(rloc)
	}
	return dataplane.EchoState{}
}

// Sources implements dataplane.SourceReporter.
func (p *Plane) Sources() iter.Seq2[lisp.RLOC, time.Time] {
	if engine, ok := p.Plane.(dataplane.SourceReporter); ok {
		return engine.Sources()
	}
	return func(func(lisp.RLOC, time.Time) bool) {}
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

// changesRoutes reports whether rules and routes depend on what an operation changes:
// the Database, and the own RLOCs.
func changesRoutes(o dataplane.Operation) bool {
	switch o := o.(type) {
	case dataplane.PutDatabase, dataplane.DeleteDatabase, dataplane.SetSettings:
		return true
	case dataplane.Flush:
		return o.Database
	}
	return false
}

// FollowHost brings rules and routes into line with what the host is like now.
func (p *Plane) FollowHost(view hostnet.View) error {
	p.mu.Lock()
	p.routes.sources.view = view
	p.mu.Unlock()
	return p.sync()
}

// sync makes rules and routes what Database, settings and host say.
func (p *Plane) sync() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.syncLocked(p.Settings())
}

// syncLocked makes them what the Database, these settings and the host say. The caller holds mu.
func (p *Plane) syncLocked(s dataplane.Settings) error {
	if p.ended || p.held {
		return nil
	}
	p.routes.prefixes = databasePrefixes(p.Plane)
	p.routes.siblings.active = p.siblingForwards(s)
	p.routes.siblings.choose(s.Sibling)
	p.routes.arrivals = arrivalsOf(p.Plane, &s, p.always)
	p.routes.sources.rlocs = nil
	for _, rloc := range s.LocalRLOCs {
		p.routes.sources.rlocs = append(p.routes.sources.rlocs, rloc.Addr())
	}
	warnings, err := p.routes.apply()
	for _, w := range warnings {
		if !slices.Contains(p.told, w) {
			p.log.Warn(w)
		}
	}
	for _, w := range p.told {
		if err == nil && !slices.Contains(warnings, w) {
			p.log.Info("over: " + w)
		}
	}
	if err == nil {
		p.told = warnings
	}
	return err
}

// Warnings are what works less well than it could.
func (p *Plane) Warnings() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.told)
}

// databasePrefixes are the IP prefixes of the Database, of all Instance-IDs.
func databasePrefixes(plane dataplane.Plane) (prefixes []netip.Prefix) {
	listed := map[netip.Prefix]bool{}
	for entry := range plane.Database() {
		if prefix := entry.Prefix.Netip(); prefix.IsValid() && !listed[prefix] {
			listed[prefix] = true
			prefixes = append(prefixes, prefix)
		}
	}
	return prefixes
}

// Detach removes rules and routes, then the engine.
func (p *Plane) Detach(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	return errors.Join(p.routes.Remove(), p.Plane.Detach(ctx))
}

// Datapath implements dataplane.DatapathReporter.
func (p *Plane) Datapath() (dataplane.DatapathState, error) {
	if engine, ok := p.Plane.(dataplane.DatapathReporter); ok {
		return engine.Datapath()
	}
	return dataplane.DatapathState{}, errors.New("this data plane does not tell of its programs and tables")
}
