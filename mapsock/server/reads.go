// SPDX-License-Identifier: Apache-2.0

package server

// Reads: get, settings, counters and path states; dumps are in dump.go. They hold no
// lock of the server and answer the client that asked. A get is also told to those who
// listen to reads.

import (
	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/lisp"
	"loci/mapsock"
)

// get answers with the entry of exactly that EID-Prefix, or, without a mask, with
// the longest that covers the EID; where both tables have it, with the Database's.
func (c *session) get(m *mapsock.Message) error {
	if !m.HasEID {
		return mapsock.Refusef(unix.EINVAL, "get without EID")
	}
	if !c.room() {
		return mapsock.Refusef(unix.ESHUTDOWN, "the session ends")
	}
	var answer mapsock.Message
	found := -1
	if m.Flags.Database() {
		found = c.server.getDatabase(m, &answer)
	}
	if m.Flags.MapCache() {
		c.server.getMapping(m, &answer, found)
	}
	if answer.Type == 0 {
		return mapsock.Refusef(unix.ESRCH, "%s is not there", m.Prefix)
	}
	answer.Seq = m.Seq
	answer.Flags |= m.Flags & mapsock.FlagAll
	if err := c.reply(&answer); err != nil {
		return err
	}
	c.server.tellRead(&answer, c)
	return nil
}

// tellRead tells those who listen to reads what another was answered.
func (s *Server) tellRead(answer *mapsock.Message, asker *session) {
	if !s.heard(mapsock.HearReads, asker) {
		return
	}
	answer.Flags &^= mapsock.FlagOwn
	if b, err := answer.Append(nil); err == nil {
		few := s.tell(b, 1, mapsock.HearReads, asker)
		few.flush()
	}
}

// getDatabase finds a Database entry and returns its mask length, -1 for none.
func (s *Server) getDatabase(m, answer *mapsock.Message) int {
	var best dataplane.DatabaseEntry
	found := -1
	for entry := range s.plane.Database() {
		fits := entry.Prefix == m.Prefix || !m.HasMask && entry.Prefix.Covers(m.Prefix)
		if fits && entry.Prefix.Bits() > found {
			best, found = entry, entry.Prefix.Bits()
		}
	}
	if found >= 0 {
		answer.Reset(mapsock.TypeGet)
		answer.SetDatabase(&best, s.plane.Settings().LocalRLOCs)
		describeInterfaces(answer, interfaceMTUs())
	}
	return found
}

// getMapping finds a map-cache entry that is longer than what was found already.
func (s *Server) getMapping(m, answer *mapsock.Message, found int) {
	for bits := m.Prefix.Bits(); bits > found; bits-- {
		prefix, err := lisp.PrefixFrom(m.Prefix.Instance(), m.Prefix.EID(), bits)
		if err != nil {
			continue // a name that is cut inside an octet
		}
		if entry, ok := s.plane.Mapping(prefix); ok {
			answer.Reset(mapsock.TypeGet)
			answer.SetMapping(&entry)
			answer.SetUsage(entry.Usage)
			s.paths.describe(answer)
			return
		}
		if m.HasMask {
			return
		}
	}
}

// state answers with the settings or the counters.
func (c *session) state(m *mapsock.Message) error {
	if !c.room() {
		return mapsock.Refusef(unix.ESHUTDOWN, "the session ends")
	}
	if m.Type == mapsock.TypeGetSettings {
		m.SetSettings(c.server.plane.Settings())
		return c.replyWith(m, m.AppendParts)
	}
	m.SetCounters(c.server.allCounters())
	if before := c.server.zeroed.Load(); before != nil && m.Flags&mapsock.FlagSince != 0 {
		since(m.Counts, *before)
	}
	return c.reply(m)
}

// pathStates answers with what is known of the locators of a message.
func (c *session) pathStates(m *mapsock.Message) error {
	if len(m.Locators) == 0 {
		return mapsock.Refusef(unix.EINVAL, "want locators to tell of")
	}
	if !c.room() {
		return mapsock.Refusef(unix.ESHUTDOWN, "the session ends")
	}
	mtus, tellsMTUs := c.server.plane.(dataplane.PathReporter)
	echoes, tellsEchoes := c.server.plane.(dataplane.EchoReporter)
	for i := range m.Locators {
		p := mapsock.PathState{RLOC: m.Locators[i].RLOC}
		if tellsMTUs {
			p.MTU, p.Learnt = mtus.PathMTU(p.RLOC)
		}
		if tellsEchoes {
			p.Echo = echoes.EchoNonce(p.RLOC)
		}
		m.Paths = append(m.Paths, p)
	}
	m.Locators = m.Locators[:0]
	m.Mark(mapsock.AttributePath)
	return c.reply(m)
}
