// SPDX-License-Identifier: Apache-2.0

package daemon

// Which planes this process runs: both, or one of them, joined to the other by a
// mapping socket. The planes are the same in all cases; only what stands between
// them differs.

import (
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"sync"

	"loci/config"
	"loci/daemon/plan"
	"loci/daemon/policyroute"
	"loci/daemon/remoteplane"
	"loci/dataplane"
	"loci/dataplane/lispers"

	mapsockserver "loci/mapsock/server"
)

// checkPlanes finds configurations that the choice does not fit.
func checkPlanes(planes Planes, c *config.Config, detach bool) error {
	switch {
	case planes == PlanesBoth && c.Datapath.Lispers != nil:
		return errors.New("datapath.lispers is for one plane alone: run with --planes data or --planes control")
	case planes == PlanesBoth:
		return nil
	case !c.UsesDataPlane():
		return fmt.Errorf("--planes %s: this configuration has no data plane (none of itr, etr, rtr, pitr and petr)", planes)
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

// checkOtherProcess refuses changes of what the process with the data plane does by its own configuration.
func checkOtherProcess(planes Planes, current, fresh plan.Plan) error {
	if planes != PlanesControl || policyroute.SameMobileNode(current.Config, fresh.Config) {
		return nil
	}
	return errors.New("mobile-node, and its EIDs, are the other process's, which runs the data plane: restart both: nothing was changed")
}

// notCarried names the keys of settings that lispers.net's interface does not carry.
// An error is better than a setting that is silently ignored.
func notCarried(c *config.Config) (keys []string) {
	for key, is := range map[string]bool{
		"public-internet":          c.PublicInternet,
		"datapath.data-header":     c.Datapath.DataHeader.StatusBits || c.Datapath.DataHeader.MapVersions || c.Datapath.DataHeader.EchoNonce,
		"datapath.source-check":    c.Datapath.SourceCheck != "" && c.Datapath.SourceCheck != config.SourceCheckOff,
		"itr.gleaning":             c.ITR != nil && c.ITR.Gleaning,
		"datapath.encapsulations":  len(c.Datapath.Encapsulations) > 0,
		"rtr":                      c.RTR != nil,
		"pitr":                     c.PITR != nil,
		"petr":                     c.PETR != nil,
		"datapath.recursion-depth": c.Datapath.RecursionDepth > 1,
		"datapath.access-lists":    len(c.Datapath.AccessLists) > 0,
		"interfaces.site.vlan":     slices.ContainsFunc(c.Interfaces.Site, func(s config.SiteInterface) bool { return s.VLAN != 0 }),
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
	pinWarning, err := d.options.Engine.PinTrouble(p.Config)
	if err != nil {
		return err
	}
	open := func(remade func()) (dataplane.Plane, error) {
		return d.options.Engine.Open(p.Config, p.MappingLimit(), d.log, remade)
	}
	routed, err := policyroute.Open(open, policyroute.PolicyOf(p.Config), len(p.Config.Interfaces.Site) > 0, d.log)
	if err != nil {
		return fmt.Errorf("data plane: %w", err)
	}
	d.engine, d.plane, d.routed, d.nat = routed, routed, routed, newTranslation(p.Config.Datapath.Interface, &d.engineState, d.events, d.log)
	d.note(d.options.Engine, p.Config, pinWarning, d.log)
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
			return access, options, fmt.Errorf("datapath.mapping-socket.owner %s: user ID %s is not a number", c.Owner, found.Uid)
		}
		access.UID, options.Writers = int(uid), []uint32{uint32(uid)}
	}
	if c.Group != "" {
		found, err := user.LookupGroup(c.Group)
		if err != nil {
			return access, options, fmt.Errorf("datapath.mapping-socket.group: %w", err)
		}
		if access.GID, err = strconv.Atoi(found.Gid); err != nil {
			return access, options, fmt.Errorf("datapath.mapping-socket.group %s: group ID %s is not a number", c.Group, found.Gid)
		}
	}
	return access, options, nil
}
