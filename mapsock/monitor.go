// SPDX-License-Identifier: Apache-2.0

package mapsock

// Monitor hears every message, and dumps are read by one, too: a connection whose
// messages one goroutine takes as they come.

import (
	"errors"
	"fmt"
	"iter"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"loci/dataplane"
)

// Monitor is a connection that listens. Its methods are for one goroutine, except
// Close.
type Monitor struct {
	conn    *net.UnixConn
	buffer  []byte
	rest    []byte // of the datagram that is being read
	message Message
}

// DialMonitor connects to a mapping socket to listen to what it is told; HearReads
// beside DefaultHearing is everything.
func DialMonitor(path string, hearing Hearing) (*Monitor, error) {
	conn, err := net.DialUnix(network, nil, &net.UnixAddr{Name: path, Net: network})
	if err != nil {
		return nil, fmt.Errorf("mapping socket: %w", err)
	}
	m, err := NewMonitor(conn, hearing)
	if err != nil {
		return nil, fmt.Errorf("mapping socket %s: %w", path, err)
	}
	return m, nil
}

// NewMonitor listens by a connection to a mapping socket, which is the Monitor's to close;
// it is closed when that fails.
func NewMonitor(conn *net.UnixConn, hearing Hearing) (*Monitor, error) {
	m := &Monitor{conn: conn, buffer: make([]byte, MaxDatagram)}
	ask := Message{Type: TypeListen, Hearing: hearing}
	ask.Mark(AttributeListen)
	if err := m.begin(&ask); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// begin sends a message and waits for its answer. What was told before it is what
// no request has asked for yet.
func (m *Monitor) begin(ask *Message) error {
	if err := m.Send(ask); err != nil && !errors.Is(err, unix.EPIPE) {
		return err
	} // a server that has gone may have said why
	for {
		answer, err := m.Next()
		if err != nil {
			return err
		}
		if answer.Type == ask.Type && (answer.Flags&FlagOwn != 0 || answer.Errno != 0) {
			return answer.Err()
		}
	}
}

// Send sends one message; its answer comes with the others.
func (m *Monitor) Send(message *Message) error {
	b, err := message.Append(nil)
	if err != nil {
		return err
	}
	_, err = m.conn.Write(b)
	return err
}

// Next waits for the next message. It is valid until the following call. A message
// that cannot be read is an error that is a *FormatError; the next call gives the one
// behind it. After any other error the connection has ended.
func (m *Monitor) Next() (*Message, error) {
	if len(m.rest) == 0 {
		n, err := read(m.conn, m.buffer)
		if err != nil {
			return nil, err
		}
		m.rest = m.buffer[:n]
	}
	length, err := m.message.Parse(m.rest)
	m.rest = m.rest[length:]
	if length == 0 {
		m.rest = nil
	}
	if err != nil {
		return nil, err
	}
	return &m.message, nil
}

// SetDeadline bounds how long Next and Send wait; the zero time is no bound.
func (m *Monitor) SetDeadline(t time.Time) error { return m.conn.SetDeadline(t) }

// Close ends the connection.
func (m *Monitor) Close() error { return m.conn.Close() }

// DumpMappings yields the map-cache, and at last an error when it is not whole.
func (c *Client) DumpMappings() iter.Seq2[dataplane.MapCacheEntry, error] {
	return entries(c, Message{Type: TypeDump}, func(m *Message) (dataplane.MapCacheEntry, error) {
		return m.MapCacheEntry(time.Time{})
	})
}

// DumpDatabase yields the Database in prefix order, and at last an error when it is
// not whole.
func (c *Client) DumpDatabase() iter.Seq2[dataplane.DatabaseEntry, error] {
	return entries(c, Message{Type: TypeDump, Flags: FlagDatabase}, (*Message).DatabaseEntry)
}

func entries[T any](c *Client, request Message, read func(*Message) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for m, err := range c.dump(request) {
			var entry T
			if err == nil {
				entry, err = read(m)
			}
			if !yield(entry, err) || err != nil {
				return
			}
		}
	}
}

// dump yields the entries that answer a request, by a connection of its own.
func (c *Client) dump(request Message) iter.Seq2[*Message, error] {
	return func(yield func(*Message, error) bool) {
		select {
		case <-c.ended:
			yield(nil, dataplane.ErrClosed)
			return
		default:
		}
		m, err := DialMonitor(c.path, 0)
		if err != nil {
			yield(nil, err)
			return
		}
		defer m.Close() // nothing is left to be lost
		if err := m.Send(&request); err != nil {
			yield(nil, err)
			return
		}
		m.yield(c.patience, yield)
	}
}

// yield yields messages until the one without MORE.
func (m *Monitor) yield(patience time.Duration, yield func(*Message, error) bool) {
	for {
		if len(m.rest) == 0 {
			_ = m.SetDeadline(time.Now().Add(patience)) // fails when closed, as Next will
		}
		message, err := m.Next()
		if err != nil {
			yield(nil, err)
			return
		}
		if message.Flags&FlagMore == 0 {
			if err := message.Err(); err != nil {
				yield(nil, err)
			}
			return
		}
		if !yield(message, nil) {
			return
		}
	}
}
