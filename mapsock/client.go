// SPDX-License-Identifier: Apache-2.0

package mapsock

// Client: an engine behind a mapping socket, with the interface of any other. One
// goroutine receives; each caller waits for its answers. Dumps have a connection of
// their own, so that an iteration may take its time and change what it reads.

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/lisp"
)

// network is SOCK_SEQPACKET on a Unix socket: datagrams, in order, with a peer that
// is known and an end that is noticed.
const network = "unixpacket"

const (
	// eventsWaiting bounds the events that wait for who reads them.
	eventsWaiting = 4096
	// handedPlaces bounds the packets, of up to 64 KiB each, among them.
	handedPlaces = 1024
)

// DefaultPatience is how long a Client waits for an answer.
const DefaultPatience = 30 * time.Second

// Client is a dataplane.Plane on the other side of a socket.
type Client struct {
	path     string
	conn     *net.UnixConn
	patience time.Duration
	events   chan dataplane.Event
	ended    chan struct{}
	lost     atomic.Uint64 // events that found no reader

	sending sync.Mutex
	buffer  []byte

	mu     sync.Mutex
	seq    uint32
	calls  []*call
	err    error // why the connection ended
	closed bool
}

var _ dataplane.Plane = (*Client)(nil)

// call is a number of messages that wait for their answers.
type call struct {
	first   uint32 // seq of the first message
	count   uint32
	waiting uint32
	answer  func(index int, m *Message) // m is the receiver's; it must be copied
	done    chan struct{}
}

// Dial connects to a mapping socket. The client hears events; for others' operations
// there is Monitor.
func Dial(path string) (*Client, error) {
	conn, err := net.DialUnix(network, nil, &net.UnixAddr{Name: path, Net: network})
	if err != nil {
		return nil, fmt.Errorf("mapping socket: %w", err)
	}
	c := newClient(conn)
	c.path = path
	go c.receive()
	if err := c.listenAll(); err != nil {
		return nil, errors.Join(fmt.Errorf("mapping socket %s: %w", path, err), c.Close())
	}
	return c, nil
}

func newClient(conn *net.UnixConn) *Client {
	return &Client{conn: conn, patience: DefaultPatience, events: make(chan dataplane.Event, eventsWaiting), ended: make(chan struct{})}
}

// Err says why the connection ended; nil while it is there and after Close.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// listenAll asks for events and packets; who may only read gets no packets.
func (c *Client) listenAll() error {
	m := Message{Type: TypeListen, Hearing: HearOwn | HearEvents | HearPackets, MissForm: TypeMissPacket}
	m.Mark(AttributeListen, AttributeMissForm)
	_, err := c.ask(&m)
	return err
}

// receive hands out what arrives until the connection ends.
func (c *Client) receive() {
	defer c.end()
	buffer := make([]byte, MaxDatagram)
	var m Message
	for {
		n, err := read(c.conn, buffer)
		if err != nil {
			c.fail(err)
			return
		}
		if err := c.dispatch(buffer[:n], &m); err != nil {
			c.fail(err)
			return
		}
	}
}

// end wakes all who wait.
func (c *Client) end() {
	_ = c.conn.Close() // it is of no more use
	c.mu.Lock()
	calls := c.calls
	c.calls = nil
	c.mu.Unlock()
	for _, waiting := range calls {
		close(waiting.done)
	}
	close(c.events)
	close(c.ended)
}

// fail notes why the connection ends; the first reason counts.
func (c *Client) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil && !c.closed {
		c.err = err
	}
}

// dispatch hands out the messages of a datagram. A message that cannot be read is
// passed over, as far as the next can be found: a newer server may send it.
func (c *Client) dispatch(datagram []byte, m *Message) error {
	for len(datagram) > 0 {
		length, err := m.Parse(datagram)
		if length == 0 {
			return err
		}
		datagram = datagram[length:]
		if err != nil {
			m.Errno, m.ErrorText = unix.EBADMSG, "the answer cannot be read: "+err.Error()
		}
		switch {
		case m.Flags&FlagOwn != 0:
			c.answered(m)
		case err != nil:
		case m.Type == TypeListen && m.Errno != 0:
			return m.Err() // the server has no place for us
		case m.Type == TypeLost:
			c.lost.Add(m.Lost)
		default:
			c.raise(m)
		}
	}
	return nil
}

func (c *Client) raise(m *Message) {
	event, ok := m.Event()
	if !ok {
		return
	}
	if miss, ok := event.(dataplane.Miss); ok && miss.Handed && len(c.events) >= handedPlaces {
		c.lost.Add(1)
		return
	}
	select {
	case c.events <- event:
	default:
		c.lost.Add(1)
	}
}

// answered gives an answer to who waits for it.
func (c *Client) answered(m *Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, waiting := range c.calls {
		index := m.Seq - waiting.first // wraps for older calls
		if index >= waiting.count {
			continue
		}
		waiting.answer(int(index), m)
		if m.Flags&FlagMore != 0 {
			return // the last of several is still to come
		}
		if waiting.waiting--; waiting.waiting == 0 {
			c.calls = append(c.calls[:i], c.calls[i+1:]...)
			close(waiting.done)
		}
		return
	}
}

// begin reserves numbers for messages whose answers will be waited for.
func (c *Client) begin(count int, answer func(int, *Message)) (*call, error) {
	waiting := &call{count: uint32(count), waiting: uint32(count), answer: answer, done: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.ended:
		return nil, c.endedBecause()
	default:
	}
	if c.closed || c.err != nil {
		return nil, c.endedBecause()
	}
	waiting.first = c.seq
	c.seq += waiting.count
	c.calls = append(c.calls, waiting)
	return waiting, nil
}

// endedBecause is the error for what can no longer be asked.
func (c *Client) endedBecause() error {
	if c.err != nil {
		return fmt.Errorf("%w: %w", dataplane.ErrClosed, c.err)
	}
	return dataplane.ErrClosed
}

// wait waits for the answers of a call. Without them the connection is of no use any
// more: what was carried out is not known.
func (c *Client) wait(waiting *call, done <-chan struct{}) error {
	timer := time.NewTimer(c.patience)
	defer timer.Stop()
	select {
	case <-waiting.done:
	case <-timer.C:
		c.fail(fmt.Errorf("no answer for %s: %w", c.patience, os.ErrDeadlineExceeded))
		_ = c.conn.Close() // wakes the receiver
		<-c.ended
	case <-done:
		return context.Canceled
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if waiting.waiting > 0 {
		return c.endedBecause()
	}
	return nil
}

// ask sends one message and waits for its answer.
func (c *Client) ask(m *Message) (*Message, error) { return c.askContext(context.Background(), m) }

func (c *Client) askContext(ctx context.Context, m *Message) (*Message, error) {
	var answer Message
	waiting, err := c.begin(1, func(_ int, m *Message) { answer.follow(m) })
	if err != nil {
		return nil, err
	}
	m.Seq = waiting.first
	b, err := m.Append(nil)
	if err != nil {
		c.abandon(waiting)
		return nil, err
	}
	c.write(b)
	if err := c.wait(waiting, ctx.Done()); err != nil {
		c.abandon(waiting)
		return nil, err
	}
	return &answer, answer.Err()
}

// abandon forgets a call.
func (c *Client) abandon(waiting *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.calls {
		if c.calls[i] == waiting {
			c.calls = append(c.calls[:i], c.calls[i+1:]...)
			return
		}
	}
}

// Apply sends the operations, as many to a datagram as fit, and waits for the outcome
// of each. When the connection ends meanwhile, those without an answer have
// dataplane.ErrClosed: they may have been carried out.
func (c *Client) Apply(operations ...dataplane.Operation) []error {
	if len(operations) == 0 {
		return nil
	}
	results := make([]error, len(operations))
	answered := make([]bool, len(operations))
	waiting, err := c.begin(len(operations), func(i int, m *Message) { results[i], answered[i] = m.Err(), true })
	if err == nil {
		c.send(waiting, operations)
		err = c.wait(waiting, nil)
	}
	failed := false
	for i := range results {
		if !answered[i] && err != nil {
			results[i] = err
		}
		failed = failed || results[i] != nil
	}
	if !failed {
		return nil
	}
	return results
}

// send sends the messages of operations. One that fits no message is answered here.
func (c *Client) send(waiting *call, operations []dataplane.Operation) {
	c.sending.Lock()
	defer c.sending.Unlock()
	var m Message
	b := c.buffer[:0]
	for i, operation := range operations {
		err := m.SetOperation(operation)
		m.Seq = waiting.first + uint32(i)
		if err == nil {
			b, err = m.AppendOperation(b)
		}
		if err != nil {
			c.settle(&m, err)
		}
		for len(b) > MaxDatagram {
			full := messagesTogether(b)
			c.write(b[:full])
			b = b[:copy(b, b[full:])]
		}
	}
	c.write(b)
	c.buffer = b[:0]
}

// settle answers an operation that is not sent.
func (c *Client) settle(m *Message, err error) {
	m.Errno = 0
	if !errors.Is(err, errNothing) {
		m.Errno, m.ErrorText = ErrnoOf(err), err.Error()
	}
	c.answered(m)
}

// write sends a datagram. That the server has gone is left to the receiver, who may
// still find out why.
func (c *Client) write(b []byte) {
	if len(b) == 0 {
		return
	}
	_, err := c.conn.Write(b)
	if err == nil || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		return
	}
	c.fail(err)
	_ = c.conn.Close() // wakes the receiver, and it those who wait
}

// read reads a datagram. A server that closes with requests unread resets the
// connection, and Linux says so before it gives what the server had answered.
func read(conn *net.UnixConn, buffer []byte) (int, error) {
	n, err := conn.Read(buffer)
	if errors.Is(err, unix.ECONNRESET) {
		return conn.Read(buffer)
	}
	return n, err
}

// Mapping asks for the map-cache entry of exactly that prefix.
func (c *Client) Mapping(prefix lisp.Prefix) (dataplane.MapCacheEntry, bool) {
	m := Message{Type: TypeGet}
	m.SetPrefix(prefix)
	answer, err := c.ask(&m)
	if err != nil {
		return dataplane.MapCacheEntry{}, false
	}
	entry, err := answer.MapCacheEntry(time.Time{})
	return entry, err == nil
}

// Settings asks for the settings; zero when the connection has ended.
func (c *Client) Settings() dataplane.Settings {
	answer, err := c.ask(&Message{Type: TypeGetSettings})
	if err != nil {
		return dataplane.Settings{}
	}
	return answer.Settings()
}

// Counters asks for the counters; zero when the connection has ended. Events that
// were lost on the way, or found no reader here, are counted in.
func (c *Client) Counters() dataplane.Counters {
	answer, err := c.ask(&Message{Type: TypeGetCounters})
	if err != nil {
		return dataplane.Counters{}
	}
	counters := answer.Counters()
	counters.EventsLost += c.lost.Load()
	return counters
}

// Events is where misses arrive. It is closed when the connection ends.
func (c *Client) Events() <-chan dataplane.Event { return c.events }

// Close ends the connection. The engine and its tables stay.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	_ = c.conn.Close() // fails when closed
	<-c.ended
	return nil
}

// Detach ends the engine behind the socket, then closes.
func (c *Client) Detach(ctx context.Context) error {
	_, err := c.askContext(ctx, &Message{Type: TypeDetach})
	return errors.Join(err, c.Close())
}

// Mappings yields the map-cache. It ends early when the connection does; who must
// know uses DumpMappings.
func (c *Client) Mappings() iter.Seq[dataplane.MapCacheEntry] { return untilError(c.DumpMappings()) }

// Database yields the Database. It ends early when the connection does; who must know
// uses DumpDatabase.
func (c *Client) Database() iter.Seq[dataplane.DatabaseEntry] { return untilError(c.DumpDatabase()) }

// LocatorStates yields the locators that are not up; it may yield others that were not.
func (c *Client) LocatorStates() iter.Seq2[lisp.Path, dataplane.LocatorState] {
	return func(yield func(lisp.Path, dataplane.LocatorState) bool) {
		for m, err := range c.dump(Message{Type: TypeDumpLocatorStates}) {
			if err != nil || len(m.Locators) != 1 || !yield(m.Locators[0].Path(), m.LocatorState) {
				return
			}
		}
	}
}

// Sources yields the RLOCs that data packets came from lately, with the time of the last
// (dataplane.SourceReporter); none where the engine cannot tell.
func (c *Client) Sources() iter.Seq2[lisp.RLOC, time.Time] {
	return func(yield func(lisp.RLOC, time.Time) bool) {
		for m, err := range c.dump(Message{Type: TypeDumpHeard}) {
			if err != nil || len(m.Locators) != 1 || !yield(m.Locators[0].RLOC, m.Usage.LastUsedAt) {
				return
			}
		}
	}
}

func untilError[T any](all iter.Seq2[T, error]) iter.Seq[T] {
	return func(yield func(T) bool) {
		for entry, err := range all {
			if err != nil || !yield(entry) {
				return
			}
		}
	}
}
