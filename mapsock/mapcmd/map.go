// SPDX-License-Identifier: Apache-2.0

package mapcmd

// add, delete, get and flush: what they send, and what they print about it.

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"io"

	"loci/lisp"
	"loci/mapsock"
)

var types = map[string]mapsock.Type{
	verbAdd: mapsock.TypeAdd, verbDelete: mapsock.TypeDelete, verbGet: mapsock.TypeGet, verbFlush: mapsock.TypeFlush,
	verbMonitor: mapsock.TypeListen,
}

// message is what the request sends. A get asks both tables unless it says which, and
// a mapping added by hand is static unless it says otherwise, as with route(8).
func (r *mapRequest) message() *mapsock.Message {
	m := &mapsock.Message{Type: types[r.verb], Flags: r.table(), Locators: r.locators}
	if r.hasEID {
		m.SetPrefix(r.eid)
		m.HasMask = r.hasMask || r.verb != verbGet
	}
	if r.verb == verbMonitor {
		m.Hearing = r.hearing()
		m.Mark(mapsock.AttributeListen)
	}
	if r.verb != verbAdd {
		return m
	}
	for flag, on := range map[mapsock.Flags]bool{
		mapsock.FlagStatic: !r.nostatic, mapsock.FlagNegative: r.negative,
		mapsock.FlagStatusBits: r.statusBits, mapsock.FlagVersioning: r.version != 0,
	} {
		if on {
			m.Flags |= flag
		}
	}
	m.MapVersion = r.version
	return m
}

// table are the flags that say which table is meant; none is the map-cache.
func (r *mapRequest) table() mapsock.Flags {
	switch {
	case r.verb == verbMonitor:
		return 0
	case r.all || r.cache && r.database, r.verb == verbGet && !r.cache && !r.database:
		return mapsock.FlagAll
	case r.database:
		return mapsock.FlagDatabase
	}
	return 0
}

// rehearse does all but send: -d prints the message, -t nothing.
func (r *mapRequest) rehearse(out io.Writer) error {
	m := r.message()
	b, err := m.Append(nil)
	if err != nil || !r.has('d') && !r.has('v') || r.has('q') {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n%s", m, hex.Dump(b))
	return err
}

// exchange sends the message of add, delete or get and prints the answer.
func (r *mapRequest) exchange(ctx context.Context, t Terminal) error {
	c, err := dial(ctx, r.socket, mapsock.HearOwn)
	if err != nil {
		return err
	}
	defer c.close()
	return c.ask(r.message(), func(answer *mapsock.Message) error {
		switch {
		case r.asJSON:
			return t.indented(documentOf(answer))
		case r.verb == verbGet:
			return r.printMapping(t.Out, answer)
		case r.has('q'):
			return nil
		}
		return r.printDone(t.Out, answer)
	})
}

// flush empties tables: by one message, or, when only a family or an Instance-ID is
// meant, mapping by mapping.
func (r *mapRequest) flush(ctx context.Context, t Terminal) error {
	c, err := dial(ctx, r.socket, mapsock.HearOwn)
	if err != nil {
		return err
	}
	defer c.close()
	if r.family != familyAny || r.hasInstance {
		return r.flushSome(c, t)
	}
	return c.ask(r.message(), func(answer *mapsock.Message) error {
		switch {
		case r.asJSON:
			return t.indented(documentOf(answer))
		case r.has('q'):
			return nil
		}
		_, err := fmt.Fprintf(t.Out, "flush %s\n", tablesOf(r.table()))
		return err
	})
}

// doomed is a mapping that is to be deleted.
type doomed struct {
	prefix   lisp.Prefix
	database mapsock.Flags
}

func (r *mapRequest) flushSome(c *connection, t Terminal) error {
	request := &mapsock.Message{Type: mapsock.TypeDump, Flags: r.table(), Instance: r.instance}
	if r.hasInstance {
		request.Mark(mapsock.AttributeInstance)
	}
	var all []doomed
	err := c.ask(request, func(m *mapsock.Message) error {
		if r.family.covers(m.Prefix) {
			all = append(all, doomed{m.Prefix, m.Flags & mapsock.FlagDatabase})
		}
		return nil
	})
	if err != nil {
		return err
	}
	out := bufio.NewWriter(t.Out)
	for _, d := range all {
		if err := r.deleteOne(c, out, d); err != nil {
			_ = out.Flush() // what was deleted is told before what was not
			return err
		}
	}
	return out.Flush()
}

func (r *mapRequest) deleteOne(c *connection, out io.Writer, d doomed) error {
	m := &mapsock.Message{Type: mapsock.TypeDelete, Flags: d.database}
	m.SetPrefix(d.prefix)
	return c.ask(m, func(answer *mapsock.Message) error {
		switch {
		case r.asJSON:
			return encodeLine(out, documentOf(answer))
		case r.has('q'):
			return nil
		}
		return r.printDone(out, answer)
	})
}
