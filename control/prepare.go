// SPDX-License-Identifier: Apache-2.0

package control

// A configuration is made ready outside the goroutine that owns the Node: checked, defaults filled in,
// compared with the current one, its indexes built. That takes long for a long configuration; to apply
// it then does not. Nothing here touches a Node.

import (
	"fmt"
	"reflect"

	"loci/control/internal/database"
	"loci/control/internal/mapresolver"
	"loci/control/internal/message"
	"loci/lisp"
)

// Prepared is a configuration that Apply takes, once; it belongs to the Node then.
type Prepared struct {
	before   *Prepared // what it was compared with; nil once it is applied
	config   Config    // defaults filled in
	keyring  *Keyring
	sites    map[string]int // of the Map-Server: index in config.MapServer.Sites by name
	routes   mapresolver.Routes
	static   map[lisp.Prefix]struct{} // EID-Prefixes of the static mappings
	gone     []lisp.Prefix            // those that were static before
	database *database.Database       // of the ETR
	relaying map[lisp.InstanceID]bool // Config.Relaying
	same     bool                     // nothing differs
	anew     bool                     // another xTR-ID or Site-ID
}

// Prepare makes a configuration ready to take the place of the current one: Node.Current, nil for
// none. It errs like Config.Validate.
func Prepare(cfg Config, current *Prepared) (*Prepared, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	p := &Prepared{config: cfg.WithDefaults()}
	p.relaying = p.config.Relaying()
	if c := p.config.ITR; c != nil && len(c.StaticMappings) > 0 {
		p.static = make(map[lisp.Prefix]struct{}, len(c.StaticMappings))
		for _, m := range c.StaticMappings {
			p.static[m.Prefix] = struct{}{}
		}
	}
	if c := p.config.MapServer; c != nil {
		p.sites = make(map[string]int, len(c.Sites))
		for i := range c.Sites {
			p.sites[c.Sites[i].Name] = i
		}
	}
	if c := p.config.MapResolver; c != nil {
		p.routes = mapresolver.NewRoutes(c)
	}
	p.database = database.New(nil)
	if c := p.config.ETR; c != nil {
		p.database = database.New(c.Database)
	}
	p.compare(current)
	return p, nil
}

// compare finds out what differs from another configuration.
func (p *Prepared) compare(before *Prepared) {
	p.before, p.gone = before, nil
	if before == nil {
		p.keyring = message.NewKeyring(p.config)
		p.anew = p.config.XTRID != [16]byte{} || p.config.SiteID != 0
		return
	}
	p.same = reflect.DeepEqual(p.config, before.config)
	p.anew = p.config.XTRID != before.config.XTRID || p.config.SiteID != before.config.SiteID
	p.keyring = before.keyring
	if keysChanged(before.config, p.config) {
		p.keyring = message.NewKeyring(p.config)
	}
	if before.config.ITR == nil {
		return
	}
	for _, m := range before.config.ITR.StaticMappings {
		if _, still := p.static[m.Prefix]; !still {
			p.gone = append(p.gone, m.Prefix)
		}
	}
}

// keysChanged reports whether Inspect has to work with another Keyring: messages
// that it authenticated with the old one are then refused.
func keysChanged(old, new Config) bool {
	if old.ControlPort != new.ControlPort || old.AcceptZeroInnerChecksum != new.AcceptZeroInnerChecksum ||
		(old.ITR == nil) != (new.ITR == nil) || (old.ETR == nil) != (new.ETR == nil) || (len(old.Roles) == 0) != (len(new.Roles) == 0) || (old.MapResolver == nil) != (new.MapResolver == nil) {
		return true
	}
	if new.ETR != nil && !reflect.DeepEqual(old.ETR.MapServers, new.ETR.MapServers) {
		return true
	}
	return !reflect.DeepEqual(old.MapServer, new.MapServer) || !reflect.DeepEqual(old.NATRelay, new.NATRelay)
}
