// SPDX-License-Identifier: Apache-2.0

package server

// Writes: a run of messages becomes operations of the engine, and each message comes
// back to all who listen, with DONE or the errno. What cannot be read as an operation
// is answered to its sender alone. The original octets are echoed, so that what is
// not known here reaches those who know it.

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/lisp"
	"loci/mapsock"
)

// batch carries out a run of messages of one client.
type batch struct {
	server  *Server
	session *session
	heard   bool // others listen

	operations []dataplane.Operation
	parts      []part // messages whose operations wait
	touched    map[lisp.Prefix]struct{}
	flushes    bool // an operation that waits is a Flush

	own      []byte // echoes for the sender
	others   []byte // echoes for the others
	messages int    // in own
	told     int    // messages in others
}

// part is a message and what is to be done for it.
type part struct {
	raw        []byte
	flags      mapsock.Flags // to add to its echo
	operations int
	any        bool // done when one of its operations is
	err        error
	private    bool // its refusal concerns its sender alone
}

// commit carries out the writes that have been gathered.
func (c *session) commit() {
	if len(c.run) == 0 {
		return
	}
	s := c.server
	s.apply.Lock()
	defer s.apply.Unlock()
	b := &c.batch
	b.server, b.session, b.heard = s, c, s.heard(mapsock.HearOperations, c)
	defer b.rest()
	for _, raw := range c.run {
		b.add(raw, &c.message)
	}
	b.flush()
	if b.told > 0 {
		few := s.tell(b.others, b.told, mapsock.HearOperations, c)
		if !few.covers(&c.few) {
			c.few.flush() // of an earlier run
		}
		c.few = few
	}
	c.queue.answer(b.own, b.messages)
	s.counters.operations.Add(uint64(len(c.run)))
	c.run = c.run[:0]
}

// fewTouched are so few prefixes that to forget them costs less than a new map.
const fewTouched = 8

// rest keeps of a batch that is done the room for the next.
func (b *batch) rest() {
	*b = batch{operations: b.operations, parts: b.parts, touched: b.touched}
}

// touch notes that an operation that waits changes a prefix.
func (b *batch) touch(prefix lisp.Prefix) {
	if b.touched == nil {
		b.touched = map[lisp.Prefix]struct{}{}
	}
	b.touched[prefix] = struct{}{}
}

// add plans what a message asks.
func (b *batch) add(raw []byte, m *mapsock.Message) {
	_, err := m.Parse(raw)
	if err == nil && m.Has(mapsock.AttributeError) {
		err = mapsock.Refusef(unix.EINVAL, "a request cannot say what is wrong with it")
	}
	if err != nil {
		if m.Type == mapsock.TypeSetSettings && m.Flags&mapsock.FlagMore != 0 {
			b.session.settings.failed = err
		}
		b.parts = append(b.parts, part{raw: raw, err: err, private: true})
		return
	}
	p := part{raw: raw, flags: m.Flags & mapsock.FlagMore}
	m.Flags &^= mapsock.FlagsTold
	if m.Type != mapsock.TypeSetSettings {
		p.flags = 0
	}
	p.err = b.plan(m, &p)
	if p.err != nil {
		p.operations = 0
	}
	b.parts = append(b.parts, p)
}

// flagsOffset is where the flags stand in a header.
const flagsOffset = 4

func (b *batch) plan(m *mapsock.Message, p *part) error {
	if wrong := m.Flags &^ flagsOf[m.Type]; wrong != 0 {
		return mapsock.Refusef(unix.EINVAL, "flags %s do not go with %s", wrong, m.Type)
	}
	if m.Flags&mapsock.FlagStatusBits != 0 {
		return &mapsock.FormatError{Field: "flags", Offset: flagsOffset, Problem: "LOCBITS: Locator-Status-Bits are a setting of this data plane, for all mappings together", Errno: unix.EOPNOTSUPP}
	}
	switch m.Type {
	case mapsock.TypeFlush:
		b.ask(p, mapsock.FlushOf(m))
		b.flushes = true
		return nil
	case mapsock.TypeSetSettings:
		return b.planSettings(m, p)
	case mapsock.TypeSetLocatorState:
		if len(m.Locators) != 1 || !m.Has(mapsock.AttributeLocatorState) {
			return mapsock.Refusef(unix.EINVAL, "want one locator and its state")
		}
		b.ask(p, dataplane.PutLocatorState{RLOC: m.Locators[0].RLOC, Behind: m.Locators[0].Behind, State: m.LocatorState})
		return nil
	}
	if m.Type == mapsock.TypePutFlow || m.Type == mapsock.TypeDeleteFlow {
		return b.planFlow(m, p)
	}
	if !m.HasEID {
		return mapsock.Refusef(unix.EINVAL, "%s without EID", m.Type)
	}
	if m.Type == mapsock.TypeDelete {
		b.planDelete(m, p)
		return nil
	}
	return b.planEntry(m, p)
}

// planFlow binds a flow to a path, or ends that.
func (b *batch) planFlow(m *mapsock.Message, p *part) error {
	if m.Type == mapsock.TypePutFlow {
		bound, err := m.FlowEntry()
		if err == nil {
			b.ask(p, dataplane.PutFlow{Flow: bound.Flow, Path: bound.Path})
		}
		return err
	}
	if !m.Has(mapsock.AttributeFlow) {
		return mapsock.Refusef(unix.EINVAL, "%s without a flow", m.Type)
	}
	b.ask(p, dataplane.DeleteFlow{Flow: m.Flow})
	return nil
}

// planSettings keeps a part of settings, or asks for all when it is the last.
func (b *batch) planSettings(m *mapsock.Message, p *part) error {
	if p.flags&mapsock.FlagMore != 0 {
		return b.session.settings.add(m)
	}
	settings, err := b.session.settings.complete(m)
	if err == nil {
		b.ask(p, dataplane.SetSettings{Settings: settings})
	}
	return err
}

func (b *batch) ask(p *part, operation dataplane.Operation) {
	b.operations = append(b.operations, operation)
	p.operations++
}

func (b *batch) planDelete(m *mapsock.Message, p *part) {
	p.any = m.Flags&mapsock.FlagAll != 0
	if m.Flags.MapCache() {
		if b.heard && b.expired(m.Prefix) {
			p.flags |= mapsock.FlagExpired
		}
		b.ask(p, dataplane.DeleteMapping{Prefix: m.Prefix})
	}
	if m.Flags.Database() {
		b.ask(p, dataplane.DeleteDatabase{Prefix: m.Prefix})
	}
	b.touch(m.Prefix)
}

// expired reports whether the TTL of a mapping that is to be deleted has ended.
func (b *batch) expired(prefix lisp.Prefix) bool {
	if _, changes := b.touched[prefix]; changes || b.flushes {
		return false
	}
	entry, ok := b.server.plane.Mapping(prefix)
	return ok && b.server.hasExpired(&entry)
}

func (s *Server) hasExpired(e *dataplane.MapCacheEntry) bool { return e.HasExpired(s.now()) }

// planEntry plans an add or change.
func (b *batch) planEntry(m *mapsock.Message, p *part) error {
	if m.Type == mapsock.TypeAdd && m.Flags.MapCache() && len(m.Locators) == 0 && m.Flags&mapsock.FlagNegative == 0 {
		return mapsock.Refusef(unix.EINVAL, "%s: a mapping without locators needs the flag NEGATIVE", m.Prefix)
	}
	b.settle(m.Prefix, m)
	var operations []dataplane.Operation
	var undo dataplane.Operation
	if m.Flags.Database() {
		operation, old, err := b.putDatabase(m)
		if err != nil {
			return err
		}
		operations, undo = append(operations, operation), old
	}
	if m.Flags.MapCache() {
		operation, err := b.putMapping(m)
		if err != nil {
			return err
		}
		operations = append(operations, operation)
	}
	b.touch(m.Prefix)
	if len(operations) > 1 {
		return b.both(operations, undo)
	}
	b.ask(p, operations[0])
	return nil
}

// settle carries out what waits when a message must see its outcome.
func (b *batch) settle(prefix lisp.Prefix, m *mapsock.Message) {
	_, changes := b.touched[prefix]
	if m.Flags&mapsock.FlagAll != 0 || m.Flags&mapsock.FlagReplace == 0 && (changes || b.flushes) {
		b.flush()
	}
}

// both carries out an add or change of both tables: whole or not at all.
func (b *batch) both(operations []dataplane.Operation, undo dataplane.Operation) error {
	for i, operation := range operations {
		err := errors.Join(b.server.plane.Apply(operation)...)
		if err == nil {
			continue
		}
		if i > 0 {
			err = errors.Join(err, errors.Join(b.server.plane.Apply(undo)...))
		}
		return err
	}
	return nil
}

// exists refuses what an add or change finds wrong about what is there.
func exists(m *mapsock.Message, there bool) error {
	switch {
	case m.Type == mapsock.TypeAdd && there && m.Flags&mapsock.FlagReplace == 0:
		return mapsock.Refusef(unix.EEXIST, "%s is there", m.Prefix)
	case m.Type == mapsock.TypeChange && !there:
		return mapsock.Refusef(unix.ESRCH, "%s is not there", m.Prefix)
	}
	return nil
}

func (b *batch) putMapping(m *mapsock.Message) (dataplane.Operation, error) {
	var old dataplane.MapCacheEntry
	if m.Flags&mapsock.FlagReplace == 0 {
		var there bool
		old, there = b.server.plane.Mapping(m.Prefix)
		if err := exists(m, there); err != nil {
			return nil, err
		}
	}
	if m.Type == mapsock.TypeChange {
		err := m.ChangeMapping(&old)
		return dataplane.PutMapping{Entry: old}, err
	}
	entry, err := m.MapCacheEntry(b.server.now())
	return dataplane.PutMapping{Entry: entry}, err
}

// putDatabase also gives the operation that restores what was there, when that will
// be needed.
func (b *batch) putDatabase(m *mapsock.Message) (put, undo dataplane.Operation, err error) {
	var old dataplane.DatabaseEntry
	undo = dataplane.DeleteDatabase{Prefix: m.Prefix}
	if m.Flags&mapsock.FlagReplace == 0 || m.Flags&mapsock.FlagAll != 0 {
		var there bool
		old, there = databaseEntry(b.server.plane, m.Prefix)
		if err := exists(m, there); err != nil {
			return nil, nil, err
		}
		if there {
			undo = dataplane.PutDatabase{Entry: old}
		}
	}
	if m.Type == mapsock.TypeAdd {
		old = dataplane.DatabaseEntry{}
	}
	err = m.ChangeDatabase(&old)
	return dataplane.PutDatabase{Entry: old}, undo, err
}

func databaseEntry(plane dataplane.Plane, prefix lisp.Prefix) (dataplane.DatabaseEntry, bool) {
	for entry := range plane.Database() {
		if entry.Prefix == prefix {
			return entry, true
		}
	}
	return dataplane.DatabaseEntry{}, false
}

// flush carries out what has been planned and makes the echoes.
func (b *batch) flush() {
	var results []error
	if len(b.operations) > 0 {
		results = b.server.foreign.apply(b.server.plane, b.server.now(), b.operations)
	}
	at := 0
	for i := range b.parts {
		p := &b.parts[i]
		if results != nil && p.err == nil {
			p.err = p.outcome(results[at : at+p.operations])
		}
		at += p.operations
		b.echo(p)
	}
	clear(b.operations) // they are not to be kept
	clear(b.parts)
	b.operations, b.parts, b.flushes = b.operations[:0], b.parts[:0], false
	if len(b.touched) > fewTouched {
		b.touched = nil
	}
	clear(b.touched)
}

func (p *part) outcome(results []error) error {
	var failed error
	for _, err := range results {
		if err == nil && p.any {
			return nil
		}
		if err != nil && failed == nil {
			failed = err
		}
	}
	return failed
}

func (b *batch) echo(p *part) {
	c := b.session
	if p.private {
		m := mapsock.Message{}
		m.ParseHeader(p.raw)
		b.own = append(b.own, b.server.refusalOf(&m, c.pid, p.err)...)
		b.messages++
		return
	}
	if p.err != nil || c.hears(mapsock.HearOwn) {
		b.own = mapsock.AppendEcho(b.own, p.raw, c.pid, mapsock.FlagOwn|p.flags, p.err)
		b.messages++
	}
	if b.heard {
		b.others = mapsock.AppendEcho(b.others, p.raw, c.pid, p.flags, p.err)
		b.told++
	}
}

// detachPatience bounds how long an engine may take to remove its traces.
const detachPatience = 10 * time.Second

// detach ends the engine; the server closes when its events end.
func (c *session) detach(m *mapsock.Message) error {
	s := c.server
	s.apply.Lock()
	defer s.apply.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), detachPatience)
	defer cancel()
	if err := s.plane.Detach(ctx); err != nil {
		return err
	}
	if err := c.reply(m); err != nil {
		return err
	}
	m.Flags &^= mapsock.FlagOwn
	b, err := m.Append(nil)
	if err == nil {
		few := s.tell(b, 1, mapsock.HearOperations, c)
		few.flush()
	}
	return err
}
