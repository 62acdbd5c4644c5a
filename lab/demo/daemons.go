// SPDX-License-Identifier: Apache-2.0

// The demo's daemons: the configuration of each, its process in its namespace, and what it tells over its control socket.
// Each gets a configuration as an operator would write it, and nothing that an operator could not give it.
//
// A daemon that ends by itself fails the demo with the end of its log. None outlives the demo, unless it is kept.

package demo

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"loci/daemon/api"
)

const (
	pollInterval = 10 * time.Millisecond
	stopWait     = 3 * time.Second
	logTailLines = 12

	// nobody runs the control planes of a split demo: a user with no rights at all.
	nobody     = "nobody"
	nobodysUID = 65534
)

// process is one daemon.
type process struct {
	name, socket, log string
	cmd               *exec.Cmd
	client            *api.Client
	ended             chan struct{} // closed when the process has ended
}

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
		status, err := d.client.Status(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		rows = append(rows, []string{d.name, fmt.Sprint(d.cmd.Process.Pid), strings.Join(status.Roles, ", "), status.Engine})
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
	text := fmt.Sprintf("control:\n  socket: %s\ndatapath:\n  pin-directory: %s/%s\n", r.socket(name), r.instance.Pins(), name)
	if r.options.Split {
		text += fmt.Sprintf("  mapping-socket: {path: %s, owner: %s}\n", r.instance.Path(name+".map"), nobody)
	}
	return text + "logging:\n  level: info\n"
}

// startDaemon gives the process a session of its own: Ctrl-C reaches the demo alone, which ends its daemons in order, and
// kept daemons survive the terminal.
func (r *run) startDaemon(name, configuration string) error {
	file, err := r.writeConfig(name, configuration)
	if err != nil {
		return err
	}
	return r.startProcess(name, nil, "--config", file)
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
	data, err := r.launch(name, name+".data.log", nil, "--config", file, "--planes", "data")
	if err != nil {
		return err
	}
	r.dataPlanes = append(r.dataPlanes, data)
	return r.startProcess(name, &syscall.Credential{Uid: nobodysUID, Gid: nobodysUID}, "--config", file, "--planes", "control")
}

// writeConfig writes a configuration for its owner alone, because it holds a key.
func (r *run) writeConfig(name, configuration string) (file string, err error) {
	if err := os.MkdirAll(r.socketDirectory(name), 0o755); err != nil {
		return "", err
	}
	file = r.instance.Path(name + ".yaml")
	return file, os.WriteFile(file, []byte(configuration), 0o600)
}

// socketDirectory is one for each control socket, because their owners differ.
func (r *run) socketDirectory(name string) string { return r.instance.Path(name) }

func (r *run) socket(name string) string { return r.socketDirectory(name) + "/control.sock" }

// startProcess starts a daemon that is asked over its control socket.
func (r *run) startProcess(name string, as *syscall.Credential, arguments ...string) error {
	d, err := r.launch(name, name+".log", as, arguments...)
	if err != nil {
		return err
	}
	d.client = api.NewClient(d.socket)
	r.daemons = append(r.daemons, d)
	return nil
}

func (r *run) launch(name, log string, as *syscall.Credential, arguments ...string) (*process, error) {
	d := &process{name: name, socket: r.socket(name), log: r.instance.Path(log), ended: make(chan struct{})}
	output, err := os.Create(d.log)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	d.cmd = exec.Command(r.options.Executable, append([]string{"run"}, arguments...)...)
	d.cmd.Stdout, d.cmd.Stderr = output, output
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: as}
	if as != nil {
		copied, err := anybodysCopy(r.options.Executable)
		if err != nil {
			return nil, err
		}
		defer copied.Close()
		d.cmd.Path = descriptorPath(copied) // its first argument stays the command's path
	}
	if err := r.topology.at(name).Start(d.cmd); err != nil {
		return nil, err
	}
	go func() {
		d.cmd.Wait()
		close(d.ended)
	}()
	return d, nil
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
		err := r.poll(ctx, func() (bool, error) {
			status, err := d.client.Status(ctx)
			return err == nil && status.Ready, nil // it does not listen yet
		})
		if err != nil {
			return fmt.Errorf("%s does not get ready: %w", d.name, err)
		}
	}
	return nil
}

// poll asks until it is done, a daemon ends, or the demo's time is over.
func (r *run) poll(ctx context.Context, done func() (bool, error)) error {
	for {
		finished, err := done()
		if finished || err != nil {
			return err
		}
		if err := r.endedDaemon(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollInterval):
		}
	}
}

func (r *run) endedDaemon() error {
	for _, d := range r.processes() {
		select {
		case <-d.ended:
			return fmt.Errorf("the daemon of %s has ended: %s", d.name, d.cmd.ProcessState)
		default:
		}
	}
	return nil
}

// awaitRegistrations waits until the Map-Server has every EID-Prefix, with exactly the RLOC that the site meant.
func (r *run) awaitRegistrations(ctx context.Context) error {
	r.screen.step("The registrations at the Map-Server")
	var registrations []api.Registration
	missing := len(sites) * len(pairNames)
	err := r.poll(ctx, func() (_ bool, err error) {
		registrations, err = r.daemons[0].client.Registrations(ctx)
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
		entries, err := d.client.MapCache(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		learned[d.name] = map[netip.Prefix]netip.Addr{}
		for _, e := range entries {
			rows = append(rows, []string{d.name, e.EIDPrefix.String(), describeEntry(e), fmt.Sprint(e.Packets), expiry(e)})
			if len(e.Locators) == 1 {
				learned[d.name][e.EIDPrefix.Netip()] = e.Locators[0].RLOC.Addr()
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
func (r *run) processes() []*process { return slices.Concat(r.daemons, r.dataPlanes) }

// stopDaemons asks first and kills later. Their namespaces are removed afterwards, whatever came of it.
func (r *run) stopDaemons() {
	for _, d := range r.processes() {
		d.cmd.Process.Signal(syscall.SIGTERM)
	}
	late := time.After(stopWait)
	for _, d := range r.processes() {
		select {
		case <-d.ended:
		case <-late:
			d.cmd.Process.Kill()
			<-d.ended
		}
	}
}

// withLogs adds the ends of the daemons' logs to an error: the logs are removed with the network.
func (r *run) withLogs(err error) error {
	all := []error{err}
	for _, d := range r.processes() {
		content, readErr := os.ReadFile(d.log)
		if readErr != nil || len(bytes.TrimSpace(content)) == 0 {
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(content)), "\n")
		tail := lines[max(0, len(lines)-logTailLines):]
		all = append(all, fmt.Errorf("log of %s:\n  %s", d.name, strings.Join(tail, "\n  ")))
	}
	return errors.Join(all...)
}
