// SPDX-License-Identifier: Apache-2.0

package mapsock

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
	flags      Flags // to add to its echo
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
	b.server, b.session, b.heard = s, c, s.heard(HearOperations, c)
	defer b.rest()
	for _, raw := range c.run {
		b.add(raw, &c.message)
	}
	b.flush()
	if b.told > 0 {
		few := s.tell(b.others, b.told, HearOperations, c)
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
func (b *batch) add(raw []byte, m *Message) {
	_, err := m.Parse(raw)
	if err == nil && m.Has(AttributeError) {
		err = refusal(unix.EINVAL, "a request cannot say what is wrong with it")
	}
	if err != nil {
		if m.Type == TypeSetSettings && m.Flags&FlagMore != 0 {
			b.session.settings.failed = err
		}
		b.parts = append(b.parts, part{raw: raw, err: err, private: true})
		return
	}
	p := part{raw: raw, flags: m.Flags & FlagMore}
	m.Flags &^= flagsTold
	if m.Type != TypeSetSettings {
		p.flags = 0
	}
	p.err = b.plan(m, &p)
	if p.err != nil {
		p.operations = 0
	}
	b.parts = append(b.parts, p)
}

func (b *batch) plan(m *Message, p *part) error {
	if wrong := m.Flags &^ flagsOf[m.Type]; wrong != 0 {
		return refusal(unix.EINVAL, "flags %s do not go with %s", wrong, m.Type)
	}
	if m.Flags&FlagStatusBits != 0 {
		return &FormatError{"flags", offsetFlags, "LOCBITS: Locator-Status-Bits are a setting of this data plane, for all mappings together", unix.EOPNOTSUPP}
	}
	switch m.Type {
	case TypeFlush:
		b.ask(p, dataplane.Flush{MapCache: m.cache(), Database: m.database()})
		b.flushes = true
		return nil
	case TypeSetSettings:
		return b.planSettings(m, p)
	case TypeSetLocatorState:
		if len(m.Locators) != 1 || !m.Has(AttributeLocatorState) {
			return refusal(unix.EINVAL, "want one locator and its state")
		}
		b.ask(p, dataplane.PutLocatorState{RLOC: m.Locators[0].RLOC, State: m.LocatorState})
		return nil
	}
	if !m.HasEID {
		return refusal(unix.EINVAL, "%s without EID", m.Type)
	}
	if m.Type == TypeDelete {
		b.planDelete(m, p)
		return nil
	}
	return b.planEntry(m, p)
}

// planSettings keeps a part of settings, or asks for all when it is the last.
func (b *batch) planSettings(m *Message, p *part) error {
	if p.flags&FlagMore != 0 {
		return b.session.settings.add(m)
	}
	settings, err := b.session.settings.complete(m)
	if err == nil {
		b.ask(p, dataplane.SetSettings{Settings: settings})
	}
	return err
}

// database and cache say which tables a message speaks of.
func (m *Message) database() bool { return m.Flags&(FlagDatabase|FlagAll) != 0 }
func (m *Message) cache() bool    { return m.Flags&FlagDatabase == 0 || m.Flags&FlagAll != 0 }

func (b *batch) ask(p *part, operation dataplane.Operation) {
	b.operations = append(b.operations, operation)
	p.operations++
}

func (b *batch) planDelete(m *Message, p *part) {
	p.any = m.Flags&FlagAll != 0
	if m.cache() {
		if b.heard && b.expired(m.Prefix) {
			p.flags |= FlagExpired
		}
		b.ask(p, dataplane.DeleteMapping{Prefix: m.Prefix})
	}
	if m.database() {
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
func (b *batch) planEntry(m *Message, p *part) error {
	if m.Type == TypeAdd && m.cache() && len(m.Locators) == 0 && m.Flags&FlagNegative == 0 {
		return refusal(unix.EINVAL, "%s: a mapping without locators needs the flag NEGATIVE", m.Prefix)
	}
	b.settle(m.Prefix, m)
	var operations []dataplane.Operation
	var undo dataplane.Operation
	if m.database() {
		operation, old, err := b.putDatabase(m)
		if err != nil {
			return err
		}
		operations, undo = append(operations, operation), old
	}
	if m.cache() {
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
func (b *batch) settle(prefix lisp.Prefix, m *Message) {
	_, changes := b.touched[prefix]
	if m.Flags&FlagAll != 0 || m.Flags&FlagReplace == 0 && (changes || b.flushes) {
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
func (m *Message) exists(there bool) error {
	switch {
	case m.Type == TypeAdd && there && m.Flags&FlagReplace == 0:
		return refusal(unix.EEXIST, "%s is there", m.Prefix)
	case m.Type == TypeChange && !there:
		return refusal(unix.ESRCH, "%s is not there", m.Prefix)
	}
	return nil
}

func (b *batch) putMapping(m *Message) (dataplane.Operation, error) {
	var old dataplane.MapCacheEntry
	if m.Flags&FlagReplace == 0 {
		var there bool
		old, there = b.server.plane.Mapping(m.Prefix)
		if err := m.exists(there); err != nil {
			return nil, err
		}
	}
	if m.Type == TypeChange {
		err := m.changeMapping(&old)
		return dataplane.PutMapping{Entry: old}, err
	}
	entry, err := m.MapCacheEntry(b.server.now())
	return dataplane.PutMapping{Entry: entry}, err
}

// putDatabase also gives the operation that restores what was there, when that will
// be needed.
func (b *batch) putDatabase(m *Message) (put, undo dataplane.Operation, err error) {
	var old dataplane.DatabaseEntry
	undo = dataplane.DeleteDatabase{Prefix: m.Prefix}
	if m.Flags&FlagReplace == 0 || m.Flags&FlagAll != 0 {
		var there bool
		old, there = databaseEntry(b.server.plane, m.Prefix)
		if err := m.exists(there); err != nil {
			return nil, nil, err
		}
		if there {
			undo = dataplane.PutDatabase{Entry: old}
		}
	}
	if m.Type == TypeAdd {
		old = dataplane.DatabaseEntry{}
	}
	err = m.changeDatabase(&old)
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
		results = b.server.plane.Apply(b.operations...)
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
		m := Message{}
		m.salvageHeader(p.raw)
		b.own = append(b.own, b.server.refusalOf(&m, c.pid, p.err)...)
		b.messages++
		return
	}
	if p.err != nil || c.hears(HearOwn) {
		b.own = appendEcho(b.own, p, c.pid, FlagOwn)
		b.messages++
	}
	if b.heard {
		b.others = appendEcho(b.others, p, c.pid, 0)
		b.told++
	}
}

// appendEcho copies a message with what came of it. What leaves no room for the
// error's words loses all but the header.
func appendEcho(b []byte, p *part, pid int32, flags Flags) []byte {
	start := len(b)
	b = append(b, p.raw...)
	if p.err != nil {
		if len(p.raw)+attributeHeaderSize+errorSize > MaxMessage {
			b = b[:start+HeaderSize]
			order.PutUint16(b[start+offsetAddresses:], 0)
			order.PutUint32(b[start+offsetLocatorCount:], 0)
			order.PutUint16(b[start+offsetAttributes:], HeaderSize)
		}
		m := Message{}
		m.fail(p.err)
		b = appendError(b, m.ErrorOffset, m.ErrorText)
		order.PutUint32(b[start+offsetErrno:], uint32(m.Errno))
	} else {
		flags |= FlagDone
		order.PutUint32(b[start+offsetErrno:], 0)
	}
	header := b[start:]
	flags |= Flags(order.Uint32(header[offsetFlags:]))&^flagsTold | p.flags
	order.PutUint32(header[offsetFlags:], uint32(flags))
	order.PutUint32(header[offsetPID:], uint32(pid))
	order.PutUint16(header[offsetLength:], uint16(len(header)))
	return b
}

// detachPatience bounds how long an engine may take to remove its traces.
const detachPatience = 10 * time.Second

// detach ends the engine; the server closes when its events end.
func (c *session) detach(m *Message) error {
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
	m.Flags &^= FlagOwn
	b, err := m.Append(nil)
	if err == nil {
		few := s.tell(b, 1, HearOperations, c)
		few.flush()
	}
	return err
}
