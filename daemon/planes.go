// SPDX-License-Identifier: Apache-2.0

package daemon

// Which planes this process runs: both, or one of them, joined to the other by a
// mapping socket. The planes are the same in all cases; only what stands between
// them differs.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"loci/config"
	"loci/daemon/plan"
	"loci/daemon/policyroute"
	"loci/daemon/remoteplane"
	"loci/dataplane"
	"loci/dataplane/lispers"
	"loci/internal/version"

	mapsockserver "loci/mapsock/server"
)

// Planes says which planes a process runs.
type Planes string

// The choices. A process with the data plane alone holds the privileges; one with
// the control plane alone needs none.
const (
	PlanesBoth    Planes = "both"
	PlanesData    Planes = "data"
	PlanesControl Planes = "control"
)

// ParsePlanes reads the choice.
func ParsePlanes(s string) (Planes, error) {
	switch p := Planes(s); p {
	case PlanesBoth, PlanesData, PlanesControl:
		return p, nil
	}
	return "", fmt.Errorf("planes %q: want both, data or control", s)
}

// checkPlanes finds configurations that the choice does not fit.
func checkPlanes(planes Planes, c *config.Config, detach bool) error {
	switch {
	case planes == PlanesBoth && c.Datapath.Lispers != nil:
		return errors.New("datapath.lispers is for one plane alone: run with --planes data or --planes control")
	case planes == PlanesBoth:
		return nil
	case !c.UsesDataPlane():
		return fmt.Errorf("--planes %s: this configuration has no data plane (neither itr nor etr)", planes)
	case c.Datapath.MappingSocket == nil && c.Datapath.Lispers == nil:
		return fmt.Errorf("--planes %s needs datapath.mapping-socket.path or datapath.lispers.directory, where the planes meet", planes)
	case planes == PlanesControl && detach:
		return errors.New("--planes control cannot --detach: the data plane belongs to the other process")
	case planes == PlanesControl && c.Datapath.Lispers != nil && len(notCarried(c)) > 0:
		return fmt.Errorf("--planes control: the interface at datapath.lispers does not carry %s: leave that out, or use a mapping socket",
			strings.Join(notCarried(c), ", "))
	}
	return nil
}

// notCarried names the keys of settings that lispers.net's interface does not carry.
// Nothing is better than a setting that is silently not in force.
func notCarried(c *config.Config) (keys []string) {
	for key, is := range map[string]bool{
		"public-internet":         c.PublicInternet,
		"datapath.data-header":    c.Datapath.DataHeader.StatusBits || c.Datapath.DataHeader.MapVersions || c.Datapath.DataHeader.EchoNonce,
		"datapath.source-check":   c.Datapath.SourceCheck != "" && c.Datapath.SourceCheck != config.SourceCheckOff,
		"itr.gleaning":            c.ITR != nil && c.ITR.Gleaning,
		"datapath.encapsulations": len(c.Datapath.Encapsulations) > 0,
		"datapath.access-lists":   len(c.Datapath.AccessLists) > 0,
		"interfaces.site.vlan":    slices.ContainsFunc(c.Interfaces.Site, func(s config.SiteInterface) bool { return s.VLAN != 0 }),
	} {
		if is {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// openPlane opens the data plane that this process's control plane drives: its own,
// or that of another process.
func (d *daemon) openPlane(p plan.Plan) error {
	if d.options.Planes != PlanesControl {
		return d.openEngine(p)
	}
	if l := p.Config.Datapath.Lispers; l != nil {
		return d.openLispers(l, p)
	}
	remote, err := remoteplane.Dial(p.Config.Datapath.MappingSocket.Path, d.log)
	if err != nil {
		return err
	}
	d.engine, d.plane = remote, remote
	return nil
}

// openLispers drives a data plane that is not ours.
func (d *daemon) openLispers(c *config.Lispers, p plan.Plan) error {
	engine, err := lispers.OpenEngine(lispers.EngineOptions{Directory: c.Directory, Mappings: p.MappingLimit(), Log: d.log})
	if err != nil {
		return err
	}
	d.engine, d.plane = engine, engine
	return nil
}

// openEngine opens this process's engine, lets policy routing follow its Database, and
// others at it by the mapping socket when the configuration says so.
func (d *daemon) openEngine(p plan.Plan) error {
	var err error
	if d.pinWarning, err = d.options.Engine.PinTrouble(p.Config); err != nil {
		return err
	}
	if d.pinWarning != "" {
		d.log.Warn(d.pinWarning)
	}
	open := func(remade func()) (dataplane.Plane, error) {
		return d.options.Engine.Open(p.Config, p.MappingLimit(), d.log, remade)
	}
	routed, err := policyroute.Open(open, policyroute.PolicyOf(p.Config), len(p.Config.Interfaces.Site) > 0, d.log)
	if err != nil {
		return fmt.Errorf("data plane: %w", err)
	}
	d.missing, d.engine, d.plane, d.routed = d.options.Engine.Missing(), routed, routed, routed
	if w := d.options.Engine.PassingPins(p.Config.Datapath.PinDirectory); w != "" {
		d.pinWarning = w
		d.log.Warn(w)
	}
	if err := routed.FollowHost(p.Host.View); err != nil {
		return fmt.Errorf("policy routing: %w", err)
	}
	if p.Config.Datapath.MappingSocket == nil {
		return nil
	}
	return d.serveMappingSocket(&p.Config.Datapath)
}

// serveMappingSocket lets others at the engine. From then on this process drives it
// through the server as well, so that others hear of what it does.
func (d *daemon) serveMappingSocket(c *config.Datapath) error {
	access, options, err := mappingSocketAccess(c.MappingSocket)
	if err != nil {
		return err
	}
	listener, err := mapsockserver.Listen(c.MappingSocket.Path, access)
	if err != nil {
		return err
	}
	offered := mapsockserver.New(d.engine, options)
	var serving sync.WaitGroup
	serving.Go(func() { _ = offered.Serve(listener) })
	d.plane = offered.Plane()
	d.stopServing = func() {
		_ = listener.Close()
		_ = offered.Close()
		serving.Wait()
	}
	return nil
}

func mappingSocketAccess(c *config.MappingSocket) (access mapsockserver.Access, options mapsockserver.Options, err error) {
	access = mapsockserver.Access{UID: -1, GID: -1}
	if c.Owner != "" {
		found, err := user.Lookup(c.Owner)
		if err != nil {
			return access, options, fmt.Errorf("datapath.mapping-socket.owner: %w", err)
		}
		uid, err := strconv.ParseUint(found.Uid, 10, 32)
		if err != nil {
			return access, options, fmt.Errorf("datapath.mapping-socket.owner %s: user ID %s is no number", c.Owner, found.Uid)
		}
		access.UID, options.Writers = int(uid), []uint32{uint32(uid)}
	}
	if c.Group != "" {
		found, err := user.LookupGroup(c.Group)
		if err != nil {
			return access, options, fmt.Errorf("datapath.mapping-socket.group: %w", err)
		}
		if access.GID, err = strconv.Atoi(found.Gid); err != nil {
			return access, options, fmt.Errorf("datapath.mapping-socket.group %s: group ID %s is no number", c.Group, found.Gid)
		}
	}
	return access, options, nil
}

// runDataPlane runs the data plane alone, until the context ends.
func (d *daemon) runDataPlane(ctx context.Context, p plan.Plan) error {
	if err := d.openEngine(p); err != nil {
		return errors.Join(err, d.abandon())
	}
	for _, w := range append(p.Warnings, d.missing...) {
		d.log.Warn(w)
	}
	var following sync.WaitGroup
	defer following.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	following.Go(func() { d.followRoutes(ctx) })
	following.Go(func() { d.routed.Run(ctx) })
	if l := p.Config.Datapath.Lispers; l != nil {
		return errors.Join(d.serveLispers(ctx, l, p), d.release())
	}
	// Whoever drives it by the mapping socket finds the interfaces and RLOCs in force.
	if err := errors.Join(d.plane.Apply(dataplane.SetSettings{Settings: p.Settings})...); err != nil {
		return errors.Join(fmt.Errorf("data plane: %w", err), d.release())
	}
	d.log.Info("ready", "version", version.String, "planes", d.options.Planes, "mapping-socket", p.Config.Datapath.MappingSocket.Path)
	tellSupervisor("READY=1")
	d.ignoreHangups(ctx)
	tellSupervisor("STOPPING=1")
	d.log.Info("stopping")
	return d.release()
}

// ignoreHangups waits for the end. A supervisor that reloads all its processes must
// not end this one, which is told everything by the control plane.
func (d *daemon) ignoreHangups(ctx context.Context) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	for {
		select {
		case <-hangups:
			d.log.Info("the data plane alone has nothing to reload: the control plane tells it everything")
		case <-ctx.Done():
			return
		}
	}
}

// withoutHandOver lets packets wait that nobody could be handed.
func withoutHandOver(s dataplane.Settings) dataplane.Settings {
	s = s.Clone()
	if s.MissPolicy == dataplane.MissHandOver {
		s.MissPolicy = dataplane.MissQueue
	}
	for instance, policy := range s.MissPolicies {
		if policy == dataplane.MissHandOver {
			s.MissPolicies[instance] = dataplane.MissQueue
		}
	}
	return s
}

// serveLispers lets the control plane of lispers.net drive the engine.
func (d *daemon) serveLispers(ctx context.Context, c *config.Lispers, p plan.Plan) error {
	options := lispers.ServerOptions{Directory: c.Directory, Settings: withoutHandOver(p.Settings), Log: d.log}
	if c.NoLocators != nil {
		options.NoLocators = *c.NoLocators
	}
	server, err := lispers.NewServer(d.plane, options)
	if err != nil {
		return err
	}
	d.log.Info("ready", "version", version.String, "planes", d.options.Planes, "lispers", c.Directory)
	tellSupervisor("READY=1")
	var hangups sync.WaitGroup
	hangups.Go(func() { d.ignoreHangups(ctx) })
	err = server.Serve(ctx)
	hangups.Wait()
	tellSupervisor("STOPPING=1")
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, server.Close())
}
