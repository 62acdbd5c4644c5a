// SPDX-License-Identifier: Apache-2.0

// The demo's daemons: the configuration of each, its process in its namespace, and what it tells over its control socket.
// Each gets a configuration as an operator would write it, and nothing that an operator could not give it.
//
// A daemon that ends by itself fails the demo with the end of its log. None outlives the demo, unless it is kept.

package demo

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"loci/daemon/api"
	"loci/lab"
)

const (
	// nobody runs the control planes of a split demo: a user with no rights at all.
	nobody     = "nobody"
	nobodysUID = 65534
)

// startDaemons starts the mapping system first: an xTR that finds no Map-Server registers again only after a while.
func (r *run) startDaemons(ctx context.Context) error {
	r.screen.step(daemonsTitle(r))
	keys := map[string]string{siteA.name: rand.Text(), siteB.name: rand.Text()}
	if err := r.startDaemon(mappingSystem.name, r.mappingSystemConfig(keys)); err != nil {
		return err
	}
	if err := r.awaitReady(ctx); err != nil {
		return err
	}
	r.siteBConfig = r.siteConfig(siteB, keys[siteB.name])
	for _, s := range sites {
		if err := r.startSite(s.name, r.siteConfig(s, keys[s.name])); err != nil {
			return err
		}
	}
	if err := r.awaitReady(ctx); err != nil {
		return err
	}
	return r.showDaemons(ctx)
}

func (r *run) showDaemons(ctx context.Context) error {
	rows := [][]string{{"namespace", "process", "roles", "data plane"}}
	for _, d := range r.daemons {
		status, err := d.Client.Status(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", d.Name, err)
		}
		rows = append(rows, []string{d.Name, fmt.Sprint(d.PID()), strings.Join(status.Roles, ", "), status.Engine})
		if r.report.Version == "" {
			r.report.Version = status.Version
		}
	}
	r.screen.table(rows, 1)
	return nil
}

// mappingSystemConfig lets each site register its own EID-Prefixes and no others.
func (r *run) mappingSystemConfig(keys map[string]string) string {
	var b strings.Builder
	b.WriteString("map-server:\n  sites:\n")
	for _, s := range sites {
		fmt.Fprintf(&b, "    - name: %s\n      authentication-keys: [{auth-key-value: %s}]\n      eid-prefixes:\n", s.name, keys[s.name])
		for _, prefix := range s.eidPrefixes {
			fmt.Fprintf(&b, "        - {eid: %q}\n", prefix.String())
		}
	}
	b.WriteString("map-resolver: {}\n")
	return b.String() + localConfig(r, mappingSystem.name)
}

// siteConfig registers each EID-Prefix with the one RLOC of its pair.
func (r *run) siteConfig(s site, key string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "interfaces:\n  site: [%s]\n  core: [%s]\n", siteLink, coreLink)
	fmt.Fprintf(&b, "itr:\n  map-resolvers: [%s]\n", mappingSystem.rloc4)
	fmt.Fprintf(&b, "etr:\n  map-servers:\n    - ms-address: %s\n      authentication-keys: [{auth-key-value: %s}]\n",
		mappingSystem.rloc4, key)
	b.WriteString("  local-eids:\n")
	for pair, prefix := range s.eidPrefixes {
		fmt.Fprintf(&b, "    - {eid: %q, rlocs: [{address: %q}]}\n", prefix.String(), s.rloc(pair).String())
	}
	return b.String() + localConfig(r, s.name)
}

// localConfig keeps three daemons on one machine apart.
func localConfig(r *run, name string) string {
	text := fmt.Sprintf("control:\n  socket: %s\ndatapath:\n  pin-directory: %s/%s\n  engine: %s\n", r.socket(name), r.instance.Pins(), name, cmp.Or(r.options.Engine, "auto"))
	if r.options.Split {
		text += fmt.Sprintf("  mapping-socket: {path: %s, owner: %s}\n", r.instance.Path(name+".map"), nobody)
	}
	return text + "logging:\n  level: info\n"
}

// startDaemon starts a daemon that does everything in one process.
func (r *run) startDaemon(name, configuration string) error {
	if _, err := r.writeConfig(name, configuration); err != nil {
		return err
	}
	return r.start(r.spec(name))
}

// startSite starts an xTR: one process, or one for each plane when they are split. The data plane's has no control socket,
// so it is not among the daemons that are asked.
func (r *run) startSite(name, configuration string) error {
	if !r.options.Split {
		return r.startDaemon(name, configuration)
	}
	file, err := r.writeConfig(name, configuration)
	if err != nil {
		return err
	}
	for _, path := range []string{file, r.socketDirectory(name)} {
		if err := os.Chown(path, nobodysUID, nobodysUID); err != nil {
			return err
		}
	}
	if err := r.startDataPlane(name); err != nil {
		return err
	}
	return r.startControlPlane(name)
}

func (r *run) startDataPlane(name string) error {
	spec := r.spec(name)
	spec.Socket, spec.Log, spec.Arguments = "", r.instance.Path(name+".data.log"), []string{"--planes", "data"}
	d, err := spec.Start()
	if err != nil {
		return err
	}
	r.dataPlanes = append(r.dataPlanes, d)
	return nil
}

// startControlPlane runs a copy of the command as a user without rights.
func (r *run) startControlPlane(name string) error {
	copied, err := anybodysCopy(r.options.Executable)
	if err != nil {
		return err
	}
	defer copied.Close()
	spec := r.spec(name)
	spec.Arguments, spec.Path = []string{"--planes", "control"}, descriptorPath(copied)
	spec.Credential = &syscall.Credential{Uid: nobodysUID, Gid: nobodysUID}
	return r.start(spec)
}

// writeConfig writes a configuration for its owner alone, because it holds a key.
func (r *run) writeConfig(name, configuration string) (file string, err error) {
	if err := os.MkdirAll(r.socketDirectory(name), 0o755); err != nil {
		return "", err
	}
	file = r.configFile(name)
	return file, os.WriteFile(file, []byte(configuration), 0o600)
}

func (r *run) configFile(name string) string { return r.instance.Path(name + ".yaml") }

// socketDirectory is one for each control socket, because their owners differ.
func (r *run) socketDirectory(name string) string { return r.instance.Path(name) }

func (r *run) socket(name string) string { return r.socketDirectory(name) + "/control.sock" }

// spec is a daemon whose configuration is written.
func (r *run) spec(name string) lab.DaemonSpec {
	return lab.DaemonSpec{
		Namespace: r.topology.at(name), Executable: r.options.Executable, ConfigFile: r.configFile(name),
		Socket: r.socket(name), Log: r.instance.Path(name + ".log"),
	}
}

// start starts a daemon that is asked over its control socket.
func (r *run) start(spec lab.DaemonSpec) error {
	d, err := spec.Start()
	if err != nil {
		return err
	}
	r.daemons = append(r.daemons, d)
	return nil
}

func daemonsTitle(r *run) string {
	if r.options.Split {
		return "The daemons: the mapping system, and for each xTR two processes, the control plane's without any rights"
	}
	return "The daemons: one process in each of three namespaces"
}

// awaitReady waits until every daemon that was started says that it is ready.
func (r *run) awaitReady(ctx context.Context) error {
	for _, d := range r.daemons {
		if err := d.AwaitReady(ctx, r.dataPlanes...); err != nil {
			return err
		}
	}
	return nil
}

// awaitRegistrations waits until the Map-Server has every EID-Prefix, with exactly the RLOC that the site meant.
func (r *run) awaitRegistrations(ctx context.Context) error {
	r.screen.step("The registrations at the Map-Server")
	var registrations []api.Registration
	missing := len(sites) * len(pairNames)
	err := lab.Poll(ctx, r.processes(), func() (_ bool, err error) {
		registrations, err = r.daemons[0].Client.Registrations(ctx)
		missing = missingRegistrations(registrations)
		return missing == 0, err
	})
	rows := [][]string{{"site", "EID-Prefix", "RLOC", "authentication", "registered by"}}
	for _, g := range registrations {
		rows = append(rows, []string{g.Site, g.EIDPrefix.String(), describeSet(g.Locators), g.Algorithm, g.ETR})
	}
	r.screen.table(rows)
	if err != nil {
		return fmt.Errorf("%d EID-Prefixes are not registered: %w", missing, err)
	}
	r.screen.good("all %d EID-Prefixes are registered", len(registrations))
	return nil
}

func missingRegistrations(registrations []api.Registration) int {
	found := map[netip.Prefix]netip.Addr{}
	for _, g := range registrations {
		if len(g.Locators) == 1 {
			found[g.EIDPrefix.Netip()] = g.Locators[0].RLOC.Addr()
		}
	}
	return countMissing(found, sites)
}

// countMissing counts the EID-Prefixes of some sites that are not at their RLOC.
func countMissing(found map[netip.Prefix]netip.Addr, of []site) int {
	missing := 0
	for _, s := range of {
		for pair, prefix := range s.eidPrefixes {
			if found[prefix] != s.rloc(pair) {
				missing++
			}
		}
	}
	return missing
}

func describeSet(locators []api.Locator) string {
	var all []string
	for _, l := range locators {
		all = append(all, l.RLOC.String())
	}
	return strings.Join(all, ", ")
}

// showMapCaches shows what the ITRs have learned, and fails when it is not the other site's mappings.
func (r *run) showMapCaches(ctx context.Context) error {
	r.screen.step("The map-caches at the end")
	rows := [][]string{{"ITR", "EID-Prefix", "RLOC", "packets", "expires in"}}
	learned := map[string]map[netip.Prefix]netip.Addr{}
	for _, d := range r.daemons[1:] {
		entries, err := d.Client.MapCache(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", d.Name, err)
		}
		learned[d.Name] = map[netip.Prefix]netip.Addr{}
		for _, e := range entries {
			rows = append(rows, []string{d.Name, e.EIDPrefix.String(), describeEntry(e), fmt.Sprint(e.Packets), expiry(e)})
			if len(e.Locators) == 1 {
				learned[d.Name][e.EIDPrefix.Netip()] = e.Locators[0].RLOC.Addr()
			}
		}
	}
	r.screen.table(rows, 3, 4)
	missing := countMissing(learned[siteA.name], []site{siteB}) + countMissing(learned[siteB.name], []site{siteA})
	if missing > 0 {
		return fmt.Errorf("%d mappings are not in the map-caches", missing)
	}
	return nil
}

func describeEntry(e api.MapCacheEntry) string {
	if len(e.Locators) == 0 && e.Action != nil {
		return "none (" + e.Action.String() + ")"
	}
	return describeSet(e.Locators)
}

func expiry(e api.MapCacheEntry) string {
	if e.ExpiresAt == nil {
		return "never"
	}
	return time.Until(*e.ExpiresAt).Round(time.Minute).String()
}

// processes are all that were started.
func (r *run) processes() []*lab.Daemon { return slices.Concat(r.daemons, r.dataPlanes) }
