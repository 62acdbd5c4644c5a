// SPDX-License-Identifier: Apache-2.0

package server

// From the queues to the sockets. What a client takes at once is sent by the goroutine that has
// put it in or, to many listeners, by the one goroutine that serves all in turn: while
// that is at work, what is told meanwhile gathers, and goes out together. What a client
// does not take at once waits for a goroutine of its own, and no other client waits for it.

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"loci/mapsock"
)

// datagramsAtOnce bounds what one client is sent before the next one's turn.
const datagramsAtOnce = 4

// fewSessions are listeners to which the teller sends by itself: to
// wake distribute would take as long.
type fewSessions [4]*session

// add notes one more listener, as far as there is room, and counts it.
func (f *fewSessions) add(c *session, listeners *int) {
	if *listeners < len(f) {
		f[*listeners] = c
	}
	*listeners++
}

// covers reports whether all of the others are among f.
func (f *fewSessions) covers(others *fewSessions) bool {
	for _, c := range others {
		if c != nil && !slices.Contains(f[:], c) {
			return false
		}
	}
	return true
}

// unlessMany returns the listeners when they are few, and else leaves them to distribute.
func (s *Server) unlessMany(few fewSessions, listeners int) fewSessions {
	if listeners <= len(few) {
		return few
	}
	s.tellSoon()
	return fewSessions{}
}

// flush sends what is in the queues, as far as it is taken at once.
func (f *fewSessions) flush() {
	for _, c := range f {
		if c != nil {
			c.flush()
		}
	}
}

// distribute sends what is told to many, until the server closes.
func (s *Server) distribute() {
	var sessions []*session
	for {
		select {
		case <-s.done:
			return
		case <-s.told:
		}
		sessions = sessions[:0]
		s.mu.Lock()
		for c := range s.sessions {
			sessions = append(sessions, c)
		}
		s.mu.Unlock()
		for _, c := range sessions {
			if c.queue.waits() {
				c.flush()
			}
		}
		clear(sessions)
	}
}

// tellSoon has what was put in queues sent.
func (s *Server) tellSoon() {
	select {
	case s.told <- struct{}{}:
	default:
	}
}

// flush sends what is in the queue, as far as the client takes it at once. Who finds
// another at it leaves: that one looks again.
func (c *session) flush() {
	for c.queue.waits() && c.sending.TryLock() {
		more := c.sendAtOnce()
		c.sending.Unlock()
		if !more {
			return
		}
	}
}

// sendAtOnce reports whether the queue is worth another look; if not, send has the rest.
// The caller holds sending.
func (c *session) sendAtOnce() bool {
	for range datagramsAtOnce {
		if len(c.unsent) > 0 {
			c.queue.rouse()
			return false
		}
		datagram := c.queue.take(c.out[:0])
		if len(datagram) == 0 {
			return true
		}
		c.out = datagram
		switch err := c.conn.writeAtOnce(datagram); {
		case errors.Is(err, unix.EAGAIN):
			c.unsent = datagram
			c.queue.rouse()
			return false
		case err != nil:
			c.queue.end()
			return false
		}
	}
	c.queue.rouse()
	return false
}

// send sends what the client does not take at once, until the queue is over.
func (c *session) send() {
	defer c.conn.Close() // an error of Close has no reader
	for range c.queue.wake {
		c.sendWaiting()
		if c.queue.over() {
			return
		}
		c.flush() // what came while sending was held
	}
}

func (c *session) sendWaiting() {
	c.sending.Lock()
	defer c.sending.Unlock()
	for datagram := c.unsent; ; {
		if len(datagram) > 0 {
			if _, err := c.conn.Write(datagram); err != nil {
				c.queue.end()
			}
		}
		c.unsent = nil
		if datagram = c.queue.take(c.out[:0]); len(datagram) == 0 {
			return
		}
		c.out = datagram
	}
}

// room waits until the client has taken so much that more may be asked; false when the
// session ends.
func (c *session) room() bool {
	c.flush()
	return c.queue.room()
}

func (s *Server) leave(c *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, c)
}

// heard reports whether a client other than one listens to something.
func (s *Server) heard(what mapsock.Hearing, except *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.sessions {
		if c != except && c.hears(what) {
			return true
		}
	}
	return false
}

// tell puts messages in the queues of those who listen to them. The caller sends them
// to the few that it returns.
func (s *Server) tell(b []byte, messages int, what mapsock.Hearing, except *session) (few fewSessions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	listeners := 0
	for c := range s.sessions {
		if c != except && c.hears(what) {
			s.offer(c, b, messages)
			few.add(c, &listeners)
		}
	}
	return s.unlessMany(few, listeners)
}

// offer puts messages in a client's queue. The caller holds mu.
func (s *Server) offer(c *session, b []byte, messages int) (lost bool) {
	lost = c.queue.offer(b, messages)
	if lost {
		s.counters.messagesLost.Add(uint64(messages))
	}
	return lost
}
