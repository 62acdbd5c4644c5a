// SPDX-License-Identifier: Apache-2.0

package lispers

// What the control plane says becomes operations of the plane. A message is done
// whole, entry by entry; what cannot be done is counted, logged, and stops nothing.
//
// A mapping with keys is withheld: its packets are dropped as by policy. Our engines
// cannot encrypt, and to send in clear what its owner wants encrypted, be it to
// another locator of the same mapping, is never right (RFC 8061).

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"loci/dataplane"
	"loci/lisp"
)

// adoptedLifetime is the TTL of mappings in the plane's tables. The foreign control
// plane removes them itself; the time is for ours, should it take over the tables.
const adoptedLifetime = lisp.DefaultTTLMinutes * time.Minute

// maxInterfaces bounds what the control plane may name.
const maxInterfaces = 256

// handle does what one datagram says.
func (s *Server) handle(datagram []byte) {
	defer s.tally.add(messagesReceived)
	m, err := decode(datagram)
	if err != nil {
		s.refused(err)
		return
	}
	s.options.Log.Debug("message of the control plane", "type", m.typeName())
	switch m := m.(type) {
	case mapCacheMessage:
		s.apply(s.mapCacheOperation(m))
	case entireMapCacheMessage:
		s.refused(m.refused...)
		s.replaceMapCache(m.entries)
	case databaseMessage:
		s.refused(m.refused...)
		s.replaceDatabase(m.prefixes)
	case interfacesMessage:
		s.refused(m.refused...)
		s.replaceInterfaces(m.list)
	case decapKeysMessage:
		s.keepKeys(func(k *keyring) error { return k.decrypt(m.from, m.keys) })
	case portMessage:
		s.setParameters(func(p *Parameters) {
			port := map[string]*uint16{typeETRNATPort: &p.ETRNATPort, typeITRCryptoPort: &p.ITRCryptoPort}[m.kind]
			*port = m.port
		})
	case parametersMessage:
		s.setParameters(func(p *Parameters) {
			p.ControlPlaneLogging, p.DataPlaneLogging, p.RTR = m.controlPlaneLogging, m.dataPlaneLogging, m.rtr
		})
	default:
		s.tally.add(messagesUnexpected)
	}
}

func (s *Server) refused(errs ...error) {
	for _, err := range errs {
		s.tally.refused(err)
		s.options.Log.Debug("refused what the control plane said", "error", err)
	}
}

// warnInterval keeps a control plane that wants too much from filling the log.
const warnInterval = time.Second

func (s *Server) apply(operations ...dataplane.Operation) {
	for i, err := range s.plane.Apply(operations...) {
		if plain, ported := withoutSourcePorts(operations[i]); err != nil && ported {
			s.tally.add(settingsNotTold)
			s.options.Log.Debug("packets leave from the ports of their flows", "error", err)
			err = errors.Join(s.plane.Apply(plain)...)
		}
		if err == nil {
			continue
		}
		s.tally.add(operationsFailed)
		now, level := s.options.Now(), slog.LevelDebug
		// That something to be deleted is not there is everyday life.
		if !errors.Is(err, dataplane.ErrNotFound) && now.Sub(s.warnedAt) >= warnInterval {
			s.warnedAt, level = now, slog.LevelWarn
		}
		s.options.Log.Log(context.Background(), level, "the data plane refused what the control plane said", "error", err)
	}
}

func (s *Server) mapCacheOperation(m mapCacheMessage) dataplane.Operation {
	if !m.add {
		return dataplane.DeleteMapping{Prefix: m.prefix}
	}
	now := s.options.Now()
	entry := dataplane.MapCacheEntry{Mapping: s.mapping(m), CreatedAt: now, ExpiresAt: now.Add(adoptedLifetime)}
	if old, ok := s.plane.Mapping(m.prefix); ok {
		entry.CreatedAt = old.CreatedAt
	}
	return dataplane.PutMapping{Entry: entry}
}

// mapping says what packets of an entry do here.
func (s *Server) mapping(m mapCacheMessage) lisp.Mapping {
	mapping := lisp.Mapping{Prefix: m.prefix, TTLMinutes: lisp.DefaultTTLMinutes, Action: s.options.NoLocators}
	keyed, natPort := false, s.natPort()
	var locators []lisp.Locator
	for _, r := range m.rlocs {
		if r.keyed {
			keyed = true
			s.keepKeys(func(k *keyring) error { return k.encrypt(r.rloc, r.keys) })
		}
		l := lisp.NewLocator(rlocAt(r.rloc, r.port))
		l.Priority, l.Weight, l.SourcePort = r.priority, r.weight, natPort
		locators = append(locators, l)
	}
	if keyed {
		s.tally.add(mappingsWithheldForKeys)
		mapping.Action = lisp.ActionDropPolicyDenied
		return mapping
	}
	set, err := lisp.NewLocatorSet(locators...)
	if err != nil {
		s.refused(refuse("rlocs", "%v", err))
		mapping.Action = lisp.ActionDrop
		return mapping
	}
	if len(set) > 0 {
		mapping.Locators, mapping.Action = set, lisp.ActionNoAction
	}
	return mapping
}

// rlocAt is an RLOC behind a port, plain where that is the usual one.
func rlocAt(r lisp.RLOC, port uint16) lisp.RLOC {
	if port == DataPort {
		port = 0
	}
	return r.WithPort(port)
}

// replaceMapCache makes the map-cache what one message says: first all that it names,
// then what it does not is removed, so that no packet of a mapping that stays misses.
func (s *Server) replaceMapCache(entries []mapCacheMessage) {
	s.mu.Lock()
	s.awaiting, s.keys.encryption = restartWait{}, nil
	s.mu.Unlock()
	named := make(map[lisp.Prefix]bool, len(entries))
	operations := make([]dataplane.Operation, 0, len(entries))
	for _, m := range entries {
		named[m.prefix] = true
		operations = append(operations, s.mapCacheOperation(m))
	}
	if len(named) == 0 {
		s.apply(dataplane.Flush{MapCache: true})
		return
	}
	for entry := range s.plane.Mappings() {
		if !named[entry.Mapping.Prefix] {
			operations = append(operations, dataplane.DeleteMapping{Prefix: entry.Mapping.Prefix})
		}
	}
	s.apply(operations...)
}

// replaceDatabase makes the Database what one message says. The interface names no
// locators: they are all own RLOCs.
func (s *Server) replaceDatabase(prefixes []lisp.Prefix) {
	locators := make([]lisp.Locator, 0, len(s.options.Settings.LocalRLOCs))
	for _, own := range s.options.Settings.LocalRLOCs {
		l := lisp.NewLocator(own)
		l.Local = true
		locators = append(locators, l)
	}
	set, err := lisp.NewLocatorSet(locators...)
	if err != nil {
		s.refused(refuse("own RLOCs", "%v", err))
		return
	}
	wanted := make(map[lisp.Prefix]bool, len(prefixes))
	for _, p := range prefixes {
		wanted[p] = true
	}
	var operations []dataplane.Operation
	for entry := range s.plane.Database() {
		switch {
		case !wanted[entry.Prefix]:
			operations = append(operations, dataplane.DeleteDatabase{Prefix: entry.Prefix})
		case entry.Locators.Equal(set):
			delete(wanted, entry.Prefix) // it is there already
		}
	}
	for _, p := range prefixes {
		if wanted[p] {
			operations = append(operations, dataplane.PutDatabase{Entry: dataplane.DatabaseEntry{Prefix: p, Locators: set}})
			delete(wanted, p)
		}
	}
	s.apply(operations...)
}

// replaceInterfaces adds the interfaces of one message to those of the options, as
// site interfaces; those of the message before that it does not name are given back.
func (s *Server) replaceInterfaces(list []interfaceEntry) {
	if len(list) > maxInterfaces {
		s.refused(refuse("interfaces", "%d of them, at most %d", len(list), maxInterfaces))
		return
	}
	settings := s.options.Settings
	settings.Interfaces = slices.Clone(settings.Interfaces)
	var learned []dataplane.Interface
	for _, named := range list {
		i := dataplane.Interface{Name: named.name, Side: dataplane.SideSite, Instance: named.instance}
		same := func(o dataplane.Interface) bool { return o.Name == i.Name && o.Side == i.Side }
		learned = append(slices.DeleteFunc(learned, same), i)
	}
	for _, i := range learned {
		at := slices.IndexFunc(settings.Interfaces, func(o dataplane.Interface) bool { return o.Name == i.Name && o.Side == i.Side })
		if at >= 0 {
			settings.Interfaces[at] = i
			continue
		}
		settings.Interfaces = append(settings.Interfaces, i)
	}
	s.mu.Lock()
	s.learned = learned
	s.mu.Unlock()
	if !slices.Equal(s.plane.Settings().Interfaces, settings.Interfaces) {
		s.apply(dataplane.SetSettings{Settings: settings})
	}
}

func (s *Server) keepKeys(keep func(*keyring) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := keep(&s.keys); err != nil {
		s.tally.add(keysRefused)
	}
}

// natPort is the source port of all packets, 0 for those of their flows.
func (s *Server) natPort() uint16 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parameters.ETRNATPort
}

// moveSourcePorts has the packets of all mappings leave from the port that the control plane named last.
func (s *Server) moveSourcePorts() {
	port := s.natPort()
	var operations []dataplane.Operation
	for entry := range s.plane.Mappings() {
		if len(entry.Mapping.Locators) > 0 {
			entry.Mapping.Locators = fromPort(entry.Mapping.Locators, port)
			operations = append(operations, dataplane.PutMapping{Entry: entry})
		}
	}
	s.apply(operations...)
}

// fromPort is a locator-set whose packets leave from a port.
func fromPort(set lisp.LocatorSet, port uint16) lisp.LocatorSet {
	ported := slices.Clone(set)
	for i := range ported {
		ported[i].SourcePort = port
	}
	return ported
}

// withoutSourcePorts is the operation for an engine that cannot send from a mapping's source port; false where there
// is none.
func withoutSourcePorts(operation dataplane.Operation) (dataplane.Operation, bool) {
	put, is := operation.(dataplane.PutMapping)
	if !is || len(put.Entry.Mapping.Locators) == 0 || put.Entry.Mapping.Locators[0].SourcePort == 0 {
		return nil, false
	}
	put.Entry.Mapping.Locators = fromPort(put.Entry.Mapping.Locators, 0)
	return put, true
}

// setParameters obeys the source port, and keeps what no Plane can do: the role of an RTR without EID-Prefixes.
func (s *Server) setParameters(change func(*Parameters)) {
	s.mu.Lock()
	before := s.parameters
	change(&s.parameters)
	after := s.parameters
	s.mu.Unlock()
	if after == before {
		return
	}
	s.options.Log.Info("parameters of the control plane", "parameters", after)
	if after.ETRNATPort != before.ETRNATPort {
		s.moveSourcePorts()
	}
	if after.RTR && !before.RTR {
		s.tally.add(settingsNotTold)
		s.options.Log.Warn("the control plane wants what this data plane does not do: re-encapsulation by an RTR")
	}
}
