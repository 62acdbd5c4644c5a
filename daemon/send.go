// SPDX-License-Identifier: Apache-2.0

package daemon

// Sending control messages, many with one system call. Messages of one length to one
// receiver that follow each other leave as one, which the kernel or the card cuts apart
// (UDP GSO). In a goroutine of its own, so that a slow socket never holds the Node up: the loop
// itself sends a few messages only where the socket has room for them.

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"

	"loci/control"
	"loci/forward"
)

const (
	// sendBatch is how many datagrams one system call sends at most.
	sendBatch = 64
	// maxSegments of one datagram is UDP_MAX_SEGMENTS of older kernels; maxGSOOctets keeps it
	// within an IP packet.
	maxSegments  = 64
	maxGSOOctets = 60_000
	// udpSegment is UDP_SEGMENT of linux/udp.h.
	udpSegment = 103
	// emptyEnough is how much may still be in a socket's send buffer of socketBufferOctets when
	// the loop adds to it: with a quarter of the buffer in use no write waits.
	emptyEnough = socketBufferOctets / 4
)

// sender writes what the Node says. Who sends holds mu.
type sender struct {
	mu       sync.Mutex
	s        *sockets
	messages []ipv4.Message
	packets  []int // how many packets each message holds
	f        *familySocket
}

func newSender(s *sockets) *sender {
	return &sender{s: s, messages: make([]ipv4.Message, 0, sendBatch), packets: make([]int, 0, sendBatch)}
}

// run sends until the context ends, then what the Node still said when it stopped, briefly.
func (d *sender) run(ctx context.Context) {
	var taken []control.SendPacket
	for {
		select {
		case <-d.s.out.wake:
			taken = d.sendWaiting(taken)
		case <-ctx.Done():
			for deadline := time.Now().Add(time.Second); !d.s.out.isEmpty() && time.Now().Before(deadline); {
				taken = d.sendWaiting(taken)
			}
			return
		}
	}
}

// sendWaiting sends what is in the outbox, whose memory it returns.
func (d *sender) sendWaiting(before []control.SendPacket) (taken []control.SendPacket) {
	d.mu.Lock()
	defer d.mu.Unlock()
	taken = d.s.out.take(before)
	d.send(taken)
	return taken
}

// sendAtOnce sends messages unless others wait before them or a socket is busy.
func (d *sender) sendAtOnce(messages []control.SendPacket) bool {
	if !d.mu.TryLock() {
		return false
	}
	defer d.mu.Unlock()
	if !d.s.out.isEmpty() {
		return false
	}
	for i := range messages {
		if f := d.s.familyOf(messages[i].Remote.Addr()); f != nil && !f.hasRoom() {
			return false
		}
	}
	d.send(messages)
	return true
}

// hasRoom reports whether a few messages more do not fill the socket's send buffer.
func (f *familySocket) hasRoom() bool {
	queued := emptyEnough
	err := f.socket.Control(func(fd uintptr) {
		if n, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); err == nil {
			queued = n
		}
	})
	return err == nil && queued < emptyEnough
}

// send sends a batch.
func (d *sender) send(batch []control.SendPacket) {
	for len(batch) > 0 {
		run := sameFlow(batch)
		f := d.s.familyOf(batch[0].Remote.Addr())
		if f == nil {
			d.s.unsent.Add(uint64(run))
			d.s.log.Debug("control message not sent: no socket of that family", "to", batch[0].Remote)
			batch = batch[run:]
			continue
		}
		if f != d.f || len(d.messages) == sendBatch {
			d.flush()
			d.f = f
		}
		d.add(batch[:run])
		batch = batch[run:]
	}
	d.flush()
}

// sameFlow is how many of the first packets can leave as one: between the same addresses, of
// one length but for the last, which may be shorter. Encapsulated packets leave alone: between
// virtual interfaces segments arrive as the one datagram that they were, and a decapsulator
// has to take that for one packet.
func sameFlow(batch []control.SendPacket) int {
	first := &batch[0]
	if first.Remote.Port() == forward.DataPort {
		return 1
	}
	n, octets := 1, len(first.Payload)
	for n < min(len(batch), maxSegments) {
		next := &batch[n]
		octets += len(next.Payload)
		if next.Remote != first.Remote || next.Local != first.Local || len(next.Payload) > len(first.Payload) || octets > maxGSOOctets {
			break
		}
		n++
		if len(next.Payload) < len(first.Payload) {
			break
		}
	}
	return n
}

// add makes one message of packets.
func (d *sender) add(run []control.SendPacket) {
	at := len(d.messages)
	d.messages = d.messages[:at+1]
	m := &d.messages[at]
	m.Buffers = m.Buffers[:0]
	for i := range run {
		m.Buffers = append(m.Buffers, run[i].Payload)
	}
	m.Addr = remoteAddr(m.Addr, run[0].Remote)
	m.OOB = d.f.sourceControl(run[0].Local.Addr().Unmap())
	if len(run) > 1 {
		m.OOB = appendSegment(m.OOB, len(run[0].Payload))
	}
	d.packets = append(d.packets, len(run))
}

// remoteAddr is an address as a message takes it, in the memory of the one before.
func remoteAddr(before net.Addr, to netip.AddrPort) net.Addr {
	u, ok := before.(*net.UDPAddr)
	if !ok {
		u = &net.UDPAddr{}
	}
	if a := to.Addr(); a.Is4() {
		octets := a.As4()
		u.IP = append(u.IP[:0], octets[:]...)
	} else {
		octets := a.As16()
		u.IP = append(u.IP[:0], octets[:]...)
	}
	u.Port, u.Zone = int(to.Port()), to.Addr().Zone()
	return u
}

// flush sends what was added.
func (d *sender) flush() {
	messages, packets := d.messages, d.packets
	for len(messages) > 0 {
		n, err := d.f.writeBatch(messages)
		if err != nil {
			n = max(n, 0)
			d.alone(&messages[n], packets[n], err)
			n++
		}
		messages, packets = messages[n:], packets[n:]
	}
	for i := range d.messages {
		clear(d.messages[i].Buffers)
	}
	d.messages, d.packets = d.messages[:0], d.packets[:0]
}

// alone sends the packets of a message one by one when they could not leave together: a path
// with a small MTU wants fragments.
func (d *sender) alone(m *ipv4.Message, packets int, err error) {
	if packets == 1 {
		d.s.unsent.Add(1)
		d.s.log.Debug("control message not sent", "to", m.Addr, "error", err)
		return
	}
	source := m.OOB[:len(m.OOB)-unix.CmsgSpace(2)]
	for _, payload := range m.Buffers {
		one := []ipv4.Message{{Buffers: [][]byte{payload}, Addr: m.Addr, OOB: source}}
		if _, err := d.f.writeBatch(one); err != nil {
			d.s.unsent.Add(1)
			d.s.log.Debug("control message not sent", "to", m.Addr, "error", err)
		}
	}
}

// sourceControl is the control message that chooses a source address, kept for the next
// time; nothing where the kernel is to choose.
func (f *familySocket) sourceControl(local netip.Addr) []byte {
	if !local.IsValid() || local.IsUnspecified() {
		return nil
	}
	if local != f.source {
		f.source = local
		if f.is4 {
			f.sourceOctets = (&ipv4.ControlMessage{Src: local.AsSlice()}).Marshal()
		} else {
			f.sourceOctets = (&ipv6.ControlMessage{Src: local.AsSlice()}).Marshal()
		}
	}
	return f.sourceOctets[:len(f.sourceOctets):len(f.sourceOctets)]
}

// appendSegment appends the control message that says how long segments are.
func appendSegment(b []byte, octets int) []byte {
	at := len(b)
	b = append(b, make([]byte, unix.CmsgSpace(2))...)
	if header := unix.CmsgLen(0); header == 16 { // cmsg_len is a long
		binary.NativeEndian.PutUint64(b[at:], uint64(unix.CmsgLen(2)))
	} else {
		binary.NativeEndian.PutUint32(b[at:], uint32(unix.CmsgLen(2)))
	}
	after := at + unix.CmsgLen(0)
	binary.NativeEndian.PutUint32(b[after-8:], unix.IPPROTO_UDP)
	binary.NativeEndian.PutUint32(b[after-4:], udpSegment)
	binary.NativeEndian.PutUint16(b[after:], uint16(octets))
	return b
}
