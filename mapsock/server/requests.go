// SPDX-License-Identifier: Apache-2.0

package server

// Requests: what a client sends, message by message. Writes that follow each other are
// carried out together; everything else is answered after the writes before it.

import (
	"errors"

	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/mapsock"
)

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
	case mapsock.TypeDump, mapsock.TypeDumpLocatorStates, mapsock.TypeDumpHeard, mapsock.TypeDumpFlows:
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
		mapsock.FlagStatusBits | mapsock.FlagEchoNonce | mapsock.FlagGleaned | mapsock.FlagStale |
		mapsock.FlagByNAT | mapsock.FlagRegistered,
	mapsock.TypeChange: mapsock.FlagDatabase | mapsock.FlagAll | mapsock.FlagVersioning | mapsock.FlagStatic | mapsock.FlagNegative | mapsock.FlagAuthoritative | mapsock.FlagStatusBits |
		mapsock.FlagEchoNonce | mapsock.FlagGleaned | mapsock.FlagStale |
		mapsock.FlagByNAT | mapsock.FlagRegistered,
	mapsock.TypeDelete: mapsock.FlagDatabase | mapsock.FlagAll | mapsock.FlagExpired,
	mapsock.TypeGet:    mapsock.FlagDatabase | mapsock.FlagAll,
	mapsock.TypeFlush:  mapsock.FlagDatabase | mapsock.FlagAll,
	mapsock.TypeDump:   mapsock.FlagDatabase | mapsock.FlagAll,

	mapsock.TypeGetCounters: mapsock.FlagSince,
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

// writesTogether bounds how many operations of one client are carried out before
// another's turn.
const writesTogether = 256

// datagramsTogether bounds how many small datagrams of one client are answered together.
const datagramsTogether = 16
