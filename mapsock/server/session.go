// SPDX-License-Identifier: Apache-2.0

package server

// A session: what one client asks and hears. One goroutine receives and answers, one
// sends what the client does not take at once, and a third runs while it takes a dump.
// What the client does wrong concerns no other client.

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"loci/mapsock"
)

type session struct {
	server *Server
	conn   *connection
	pid    int32
	writer bool // may change the tables
	queue  *queue
	listen atomic.Uint32
	form   atomic.Uint32 // dataplane.MissForm
	taking atomic.Uint64 // when it asked for packets, among all who did; 0: never

	sending sync.Mutex // one datagram after another
	out     []byte     // the datagram that is being sent
	unsent  []byte     // that the client did not take at once; part of out

	dumping atomic.Bool
	dumps   sync.WaitGroup

	mu        sync.Mutex // of the deadlines
	finishing bool

	// Of the receiving goroutine alone:
	message  mapsock.Message
	run      [][]byte // writes that follow each other
	batch    batch    // that carries out run
	settings settingsParts
	few      fewSessions // who is still to be sent the echoes of the last run
}

func newSession(s *Server, conn *connection, peer *unix.Ucred) *session {
	c := &session{
		server: s, conn: conn, out: make([]byte, 0, mapsock.MaxDatagram), pid: peer.Pid, writer: slices.Contains(s.writers, peer.Uid),
		queue: newQueue(s.limits.QueueOctets, s.limits.QueueMessages),
	}
	c.listen.Store(uint32(mapsock.DefaultHearing))
	return c
}

func (c *session) hears(what mapsock.Hearing) bool { return mapsock.Hearing(c.listen.Load())&what != 0 }

// finish lets the queue run out and stops waiting for the client.
func (c *session) finish() {
	c.queue.finish()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.finishing = true
	now := time.Now()
	_ = c.conn.SetReadDeadline(now) // fails when closed, as the next does
	_ = c.conn.SetWriteDeadline(now.Add(c.server.limits.FinishPatience))
}

// writeBefore bounds how long a datagram may wait for the client; the zero time is no
// bound. It is false when the session finishes and has its own bound.
func (c *session) writeBefore(deadline time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.finishing {
		_ = c.conn.SetWriteDeadline(deadline) // fails when closed, as the next write will
	}
	return !c.finishing
}

// refuse tells the client alone that the message it sent last was not carried out.
func (c *session) refuse(err error) {
	c.queue.answer(c.server.refusalOf(&c.message, c.pid, err), 1)
}

// refusalOf makes and counts an answer that says no more of the message than whose
// it was, and of a part of settings that it was one.
func (s *Server) refusalOf(of *mapsock.Message, pid int32, err error) []byte {
	m := mapsock.Message{Type: of.Type, Seq: of.Seq, PID: pid, Flags: mapsock.FlagOwn}
	if of.Type == mapsock.TypeSetSettings {
		m.Flags |= of.Flags & mapsock.FlagMore
	}
	m.SetError(err)
	switch m.Errno {
	case unix.EPERM:
		s.counters.refusedPermission.Add(1)
	case unix.EBUSY:
		s.counters.refusedBusy.Add(1)
	case unix.EBADMSG, unix.EINVAL, unix.EMSGSIZE, unix.EPROTONOSUPPORT, unix.ENOPROTOOPT, unix.EOPNOTSUPP, unix.EAFNOSUPPORT:
		s.counters.refusedFormat.Add(1)
	}
	b, _ := m.Append(nil) // it is short
	return b
}

// reply sends m back to the client, done.
func (c *session) reply(m *mapsock.Message) error { return c.replyWith(m, m.Append) }

// replyWith sends what write makes of m.
func (c *session) replyWith(m *mapsock.Message, write func([]byte) ([]byte, error)) error {
	m.Flags |= mapsock.FlagDone | mapsock.FlagOwn
	m.PID, m.Errno = c.pid, 0
	b, err := write(nil)
	if err != nil {
		return err
	}
	c.queue.answer(b, messagesIn(b))
	return nil
}
