// SPDX-License-Identifier: Apache-2.0

package server

// A session: what one client asks and hears. One goroutine receives and answers, one
// sends what the client does not take at once, and a third runs while it takes a dump.
// What the client does wrong concerns nobody else.

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/mapsock"
)

// writesTogether bounds how many operations of one client are carried out before
// another's turn.
const writesTogether = 256

// datagramsTogether bounds how many small datagrams of one client are answered together.
const datagramsTogether = 16

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

// receive answers datagrams until the client has none. A client that has closed its
// side gets the answers that are due, and little time to read them.
func (c *session) receive() {
	defer c.server.leave(c)
	buffer := make([]byte, mapsock.MaxDatagram+1) // one more shows that there was more
	for c.room() {
		n, err := c.conn.Read(buffer)
		if err != nil {
			break
		}
		c.handle(buffer[:n])
		ended := c.handleMore(buffer, n)
		c.flush() // who asked comes first: it goes on meanwhile
		c.few.flush()
		c.few = fewSessions{}
		if ended {
			break
		}
	}
	c.dumps.Wait()
	c.finish()
}

// handleMore answers what a client that goes ahead of its answers has sent meanwhile, so
// that the answers go out together: a datagram's worth, of which octets are answered. It
// reports whether the client has ended.
func (c *session) handleMore(buffer []byte, octets int) (ended bool) {
	if c.conn.waited { // nothing was there: to look for more would delay an answer that is waited for
		return false
	}
	for datagrams := 1; datagrams < datagramsTogether && octets < mapsock.MaxDatagram && c.queue.hasRoom(); datagrams++ {
		n, err := c.conn.readAtOnce(buffer)
		if err != nil {
			return !errors.Is(err, unix.EAGAIN)
		}
		c.handle(buffer[:n])
		octets += n
	}
	return false
}

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

// handle answers each message of a datagram.
func (c *session) handle(datagram []byte) {
	if len(datagram) > mapsock.MaxDatagram {
		c.message.Reset(0)
		c.message.ParseHeader(datagram)
		c.refuse(&mapsock.FormatError{Field: "datagram", Offset: mapsock.MaxDatagram, Problem: "it is longer than a datagram may be", Errno: unix.EMSGSIZE})
		return
	}
	for len(datagram) > 0 {
		length, problem := mapsock.Frame(datagram)
		if problem != nil {
			c.commit()
			c.message.Reset(0)
			c.message.ParseHeader(datagram)
			c.refuse(problem)
		}
		if length == 0 {
			return
		}
		if problem == nil {
			c.server.counters.messages.Add(1)
			c.handleMessage(datagram[:length])
		}
		datagram = datagram[length:]
	}
	c.commit()
}

// handleMessage keeps a write for commit, and answers anything else, after the
// writes before it.
func (c *session) handleMessage(raw []byte) {
	kind := mapsock.TypeOf(raw)
	if kind.Writes() && kind != mapsock.TypeDetach && kind != mapsock.TypeZeroCounters && c.writer {
		if c.run = append(c.run, raw); len(c.run) == writesTogether {
			c.commit()
		}
		return
	}
	c.commit()
	if _, err := c.message.Parse(raw); err != nil {
		c.refuse(err)
		return
	}
	if err := c.dispatch(&c.message); err != nil {
		c.refuse(err)
	}
}

func (c *session) dispatch(m *mapsock.Message) error {
	if m.Type.Writes() && !c.writer {
		return mapsock.Refusef(unix.EPERM, "only the owner of the data plane may change it")
	}
	m.Flags &^= mapsock.FlagsTold
	if wrong := m.Flags &^ flagsOf[m.Type]; wrong != 0 {
		return mapsock.Refusef(unix.EINVAL, "flags %s do not go with %s", wrong, m.Type)
	}
	switch m.Type {
	case mapsock.TypeGet:
		return c.get(m)
	case mapsock.TypeDump, mapsock.TypeDumpLocatorStates, mapsock.TypeDumpHeard:
		return c.dump(m)
	case mapsock.TypeGetSettings, mapsock.TypeGetCounters:
		return c.state(m)
	case mapsock.TypeGetPaths:
		return c.pathStates(m)
	case mapsock.TypeListen:
		return c.setListen(m)
	case mapsock.TypeDetach:
		return c.detach(m)
	case mapsock.TypeZeroCounters:
		return c.zeroCounters(m)
	}
	return mapsock.Refusef(unix.EOPNOTSUPP, "%s is nothing that can be asked", m.Type)
}

// flagsOf are the flags that a request of a type may have.
var flagsOf = map[mapsock.Type]mapsock.Flags{
	mapsock.TypeAdd: mapsock.FlagDatabase | mapsock.FlagAll | mapsock.FlagVersioning | mapsock.FlagStatic | mapsock.FlagNegative | mapsock.FlagReplace | mapsock.FlagAuthoritative |
		mapsock.FlagStatusBits | mapsock.FlagEchoNonce | mapsock.FlagGleaned,
	mapsock.TypeChange: mapsock.FlagDatabase | mapsock.FlagAll | mapsock.FlagVersioning | mapsock.FlagStatic | mapsock.FlagNegative | mapsock.FlagAuthoritative | mapsock.FlagStatusBits |
		mapsock.FlagEchoNonce | mapsock.FlagGleaned,
	mapsock.TypeDelete: mapsock.FlagDatabase | mapsock.FlagAll | mapsock.FlagExpired,
	mapsock.TypeGet:    mapsock.FlagDatabase | mapsock.FlagAll,
	mapsock.TypeFlush:  mapsock.FlagDatabase | mapsock.FlagAll,
	mapsock.TypeDump:   mapsock.FlagDatabase | mapsock.FlagAll,

	mapsock.TypeGetCounters: mapsock.FlagSince,
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

// setListen changes what the client hears and answers with what holds: of a miss no
// more than the settings let the engine tell, and packets only to those who may write.
func (c *session) setListen(m *mapsock.Message) error {
	if !c.writer {
		m.Hearing &^= mapsock.HearPackets
		m.MissForm = mapsock.TypeMissEID
	}
	if m.Has(mapsock.AttributeMissForm) {
		c.form.Store(uint32(m.Settings().MissForm))
	}
	if m.Has(mapsock.AttributeListen) && m.Hearing&mapsock.HearPackets != 0 {
		c.taking.Store(c.server.takers.Add(1))
	}
	if m.Has(mapsock.AttributeListen) {
		c.listen.Store(uint32(m.Hearing))
	}
	m.Hearing = mapsock.Hearing(c.listen.Load())
	m.MissForm = mapsock.MissType(min(dataplane.MissForm(c.form.Load()), c.server.plane.Settings().MissForm))
	m.Mark(mapsock.AttributeListen, mapsock.AttributeMissForm)
	return c.reply(m)
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
