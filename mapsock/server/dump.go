// SPDX-License-Identifier: Apache-2.0

package server

// Dumps: a table as a stream of messages to the client that asked. A dump runs beside
// everything else, past the client's queue, and is as fast as the client reads.

import (
	"errors"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/lisp"
	"loci/mapsock"
)

// dump begins to stream a table. It runs beside everything else: the client's other
// requests are answered meanwhile, and its speed is the client's.
func (c *session) dump(m *mapsock.Message) error {
	if c.dumping.Swap(true) {
		return mapsock.Refusef(unix.EBUSY, "one dump at a time for each client")
	}
	if !c.writer && !c.server.beginReaderDump() {
		c.dumping.Store(false)
		return mapsock.Refusef(unix.EBUSY, "too many dumps at a time")
	}
	request := *m
	request.Locators = nil // they are the session's
	c.dumps.Go(func() {
		d := dumper{session: c, request: request}
		d.run()
		if !c.writer {
			<-c.server.dumps
		}
		c.dumping.Store(false)
		d.finish()
	})
	return nil
}

// dumpPause is how long a dump leaves the processor alone after each datagram, of some 400
// entries: other threads that were to run on it need not be moved or wait.
const dumpPause = 100 * time.Microsecond

// datagramsATurn is after how many datagrams, half a millisecond each, a dump lets others have its
// place to run, who would else wait until Go takes it away after 10 ms.
const datagramsATurn = 4

func (s *Server) beginReaderDump() bool {
	select {
	case s.dumps <- struct{}{}:
		return true
	default:
		return false
	}
}

// dumper streams a table to one client, past its queue: the socket's buffer is the
// only one, so that a dump costs no memory and holds up no other client.
type dumper struct {
	session  *session
	request  mapsock.Message
	message  mapsock.Message
	datagram []byte
	entries  uint64
	err      error

	datagrams uint // written so far
}

func (d *dumper) run() {
	d.datagram = make([]byte, 0, mapsock.MaxDatagram)
	plane := d.session.server.plane
	switch d.request.Type {
	case mapsock.TypeDumpLocatorStates:
		d.locatorStates(plane)
		return
	case mapsock.TypeDumpHeard:
		d.heard(plane)
		return
	case mapsock.TypeDumpFlows:
		d.flows(plane)
		return
	}
	if d.request.Flags.Database() {
		d.database(plane)
	}
	if d.request.Flags.MapCache() && d.err == nil {
		d.mappings(plane)
	}
}

func (d *dumper) locatorStates(plane dataplane.Plane) {
	for path, state := range plane.LocatorStates() {
		d.message.Reset(d.request.Type)
		d.message.SetLocatorState(path, state)
		if !d.put() {
			return
		}
	}
}

// heard tells of the RLOCs that packets came from, none where the engine cannot tell.
func (d *dumper) heard(plane dataplane.Plane) {
	reporter, ok := plane.(dataplane.SourceReporter)
	if !ok {
		return
	}
	for rloc, at := range reporter.Sources() {
		d.message.Reset(d.request.Type)
		d.message.Locators = append(d.message.Locators, mapsock.Locator{Locator: lisp.Locator{RLOC: rloc, Reachable: true}})
		d.message.Usage.LastUsedAt = at
		d.message.Mark(mapsock.AttributeLastUsed)
		if !d.put() {
			return
		}
	}
}

func (d *dumper) flows(plane dataplane.Plane) {
	for entry := range plane.Flows() {
		d.message.Reset(d.request.Type)
		d.message.SetFlowEntry(&entry)
		if !d.put() {
			return
		}
	}
}

func (d *dumper) database(plane dataplane.Plane) {
	local, mtus := plane.Settings().LocalRLOCs, interfaceMTUs()
	for entry := range plane.Database() {
		if !d.wants(entry.Prefix) {
			continue
		}
		d.message.Reset(d.request.Type)
		d.message.SetDatabase(&entry, local)
		describeInterfaces(&d.message, mtus)
		if !d.put() {
			return
		}
	}
}

func (d *dumper) mappings(plane dataplane.Plane) {
	for entry := range plane.Mappings() {
		if !d.wants(entry.Mapping.Prefix) {
			continue
		}
		d.message.Reset(d.request.Type)
		d.message.SetMapping(&entry)
		d.message.SetUsage(entry.Usage)
		d.session.server.paths.describe(&d.message)
		if !d.put() {
			return
		}
	}
}

// wants reports whether an entry is in the Instance-ID that was asked for.
func (d *dumper) wants(prefix lisp.Prefix) bool {
	return !d.request.Has(mapsock.AttributeInstance) || d.request.Instance == prefix.Instance()
}

// put adds the message to the datagram, which goes out when it is full.
func (d *dumper) put() bool {
	m := &d.message
	m.Flags |= mapsock.FlagMore | mapsock.FlagOwn
	m.PID, m.Seq = d.session.pid, d.request.Seq
	full, err := m.Append(d.datagram)
	if err != nil {
		d.err = err
		return false
	}
	if len(full) > mapsock.MaxDatagram-mapsock.HeaderSize {
		added := len(full) - len(d.datagram)
		if !d.write() {
			return false
		}
		full = append(d.datagram, full[len(full)-added:]...)
	}
	d.datagram = full
	d.entries++
	return true
}

// write sends the datagram. A client that takes nothing for too long is cut off:
// its iteration may hold a snapshot of a large table.
func (d *dumper) write() bool {
	c := d.session
	if !c.writeBefore(time.Now().Add(c.server.limits.DumpPatience)) {
		d.err = mapsock.Refusef(unix.ESHUTDOWN, "the session ends")
		return false
	}
	_, d.err = c.conn.Write(d.datagram)
	if d.datagrams++; d.datagrams%datagramsATurn == 0 {
		runtime.Gosched()
	}
	pause := unix.NsecToTimespec(int64(dumpPause))
	_ = unix.Nanosleep(&pause, nil) // it may be cut short
	d.datagram = d.datagram[:0]
	if errors.Is(d.err, os.ErrDeadlineExceeded) {
		c.server.counters.clientsCut.Add(1)
	}
	if d.err != nil {
		c.queue.end()
		_ = c.conn.SetReadDeadline(time.Now()) // the receiver ends the session
	}
	return d.err == nil
}

// finish says that the dump is over.
func (d *dumper) finish() {
	c, m := d.session, &d.message
	m.Reset(d.request.Type)
	m.Flags = d.request.Flags | mapsock.FlagOwn
	m.PID, m.Seq, m.Count = c.pid, d.request.Seq, d.entries
	m.Mark(mapsock.AttributeCount)
	if d.err != nil {
		m.SetError(d.err)
	} else {
		m.Flags |= mapsock.FlagDone
	}
	b, err := m.Append(d.datagram)
	if err != nil || len(b) > mapsock.MaxDatagram {
		return
	}
	d.datagram = b
	if d.write() {
		c.writeBefore(time.Time{})
	}
}
