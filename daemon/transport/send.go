// SPDX-License-Identifier: Apache-2.0

package transport

// Sending control messages, many with one system call. Messages of one length to one
// receiver that follow each other leave as one, which the kernel or the card cuts apart
// (UDP GSO). In a goroutine of its own, so that a slow socket never holds the Node up: the loop
// itself sends a few messages only where the socket has room for them.

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"loci/control"
	"loci/dataplane/kernel/atonce"
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
)

// sender writes what the Node says. Who sends holds mu.
type sender struct {
	mu       sync.Mutex
	families []*familySocket
	data     dataPort
	out      *outbox
	log      *slog.Logger
	unsent   atomic.Uint64 // messages that could not be sent
	box      *atonce.Outbox
	runs     [][]control.SendPacket // what each datagram in the box is made of
	pieces   [][]byte               // of the one that is added
	f        *familySocket          // by which they leave
}

func newSender(families []*familySocket, log *slog.Logger) *sender {
	return &sender{families: families, data: dataPort{log: log}, out: newOutbox(), log: log, box: atonce.NewOutbox(sendBatch), runs: make([][]control.SendPacket, 0, sendBatch)}
}

// run sends until the context ends, then what the Node still said when it stopped, briefly.
func (d *sender) run(ctx context.Context) {
	var taken []control.SendPacket
	for {
		select {
		case <-d.out.wake:
			taken = d.sendWaiting(taken)
		case <-ctx.Done():
			for deadline := time.Now().Add(time.Second); !d.out.isEmpty() && time.Now().Before(deadline); {
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
	taken = d.out.take(before)
	d.unsent.Add(uint64(len(d.send(taken, true)))) // the sockets are closed
	return taken
}

// sendAtOnce sends messages without waiting for anything, and returns those that are left: when others wait before
// them, or when a socket is busy.
func (d *sender) sendAtOnce(messages []control.SendPacket) (left []control.SendPacket) {
	if !d.mu.TryLock() {
		return messages
	}
	defer d.mu.Unlock()
	if !d.out.isEmpty() {
		return messages
	}
	return d.send(messages, false)
}

// send sends a batch. What is left found no room in a socket's buffer, unless that is to be waited for.
func (d *sender) send(batch []control.SendPacket, wait bool) (left []control.SendPacket) {
	for rest := batch; len(rest) > 0; {
		f := d.socketFor(&rest[0])
		if f != d.f || len(d.runs) == sendBatch {
			if unsent := d.flush(wait); unsent > 0 {
				return batch[len(batch)-len(rest)-unsent:]
			}
			d.f = f
		}
		run := rest[:sameFlow(rest)]
		rest = rest[len(run):]
		if f == nil {
			d.unsent.Add(uint64(len(run)))
			d.log.Debug("control message not sent: no socket for it", "from", run[0].Local, "to", run[0].Remote)
			continue
		}
		d.add(run)
	}
	return batch[len(batch)-d.flush(wait):]
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

// add makes one datagram of packets.
func (d *sender) add(run []control.SendPacket) {
	d.pieces = d.pieces[:0]
	for i := range run {
		d.pieces = append(d.pieces, run[i].Payload)
	}
	source := d.f.sourceControl(run[0].Local.Addr().Unmap())
	if len(run) > 1 {
		source = appendSegment(source, len(run[0].Payload))
	}
	d.box.Add(run[0].Remote, source, d.pieces...)
	d.runs = append(d.runs, run)
}

// flush sends what was added, and returns how many packets found no room.
func (d *sender) flush(wait bool) (unsent int) {
	defer d.forget()
	for first := 0; first < len(d.runs); {
		n, err := d.f.socket.send(d.box, first, wait)
		first += n
		if err == nil {
			continue
		}
		left := d.runs[first]
		if !errors.Is(err, unix.EAGAIN) {
			left = d.alone(left, wait, err)
		}
		if first++; len(left) > 0 {
			return len(left) + packetsOf(d.runs[first:])
		}
	}
	return 0
}

func packetsOf(runs [][]control.SendPacket) (sum int) {
	for _, run := range runs {
		sum += len(run)
	}
	return sum
}

func (d *sender) forget() {
	d.box.Forget()
	clear(d.runs)
	clear(d.pieces)
	d.runs = d.runs[:0]
}

// alone sends the packets of a datagram one by one when they could not leave together: a path
// with a small MTU wants fragments. What is left found no room.
func (d *sender) alone(run []control.SendPacket, wait bool, err error) (left []control.SendPacket) {
	if len(run) == 1 {
		d.noteUnsent(&run[0], err)
		return nil
	}
	box := atonce.NewOutbox(1)
	for i := range run {
		box.Add(run[i].Remote, d.f.sourceControl(run[i].Local.Addr().Unmap()), run[i].Payload)
		_, err := d.f.socket.send(box, 0, wait)
		if errors.Is(err, unix.EAGAIN) {
			return run[i:]
		}
		if err != nil {
			d.noteUnsent(&run[i], err)
		}
		box.Forget()
	}
	return nil
}

func (d *sender) noteUnsent(p *control.SendPacket, err error) {
	d.unsent.Add(1)
	d.log.Debug("control message not sent", "to", p.Remote, "error", err)
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

// socketFor is the socket that a message leaves by, nil where there is none.
func (d *sender) socketFor(p *control.SendPacket) *familySocket {
	is4 := p.Remote.Addr().Unmap().Is4()
	if p.Local.Port() == forward.DataPort {
		return d.data.socket(is4)
	}
	for _, f := range d.families {
		if f.is4 == is4 {
			return f
		}
	}
	return nil
}
