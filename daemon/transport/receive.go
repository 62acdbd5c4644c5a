// SPDX-License-Identifier: Apache-2.0

package transport

// Receiving control messages, many with one system call: a batch of datagrams, each of which the kernel may have
// made of several of one sender (UDP GRO). They are parsed and authenticated here, outside the event loop (RFC 9301
// s.5). A receiver waits for no other goroutine: a full queue drops and counts.

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"loci/control"
	"loci/dataplane/kernel/atonce"
)

const (
	// maxDatagramOctets is the largest UDP payload there is.
	maxDatagramOctets = 65535
	// receiveErrorPause keeps an error that persists from taking a whole processor.
	receiveErrorPause = time.Millisecond
	// receiveBatch is how many datagrams one system call takes at most.
	receiveBatch = 32
	// fullBatchesInARow is after how many full ones a socket takes what one sender sends in a piece.
	fullBatchesInARow = 4
	// receiveControlOctets hold the address that a datagram came to and its segment size.
	receiveControlOctets = 128
	// udpGRO is UDP_GRO of linux/udp.h: as socket option and as kind of control message.
	udpGRO = 104
)

// receiver reads one socket.
type receiver struct {
	keys     *atomic.Pointer[control.Keyring]
	inbox    *inbox
	f        *familySocket
	log      *slog.Logger
	box      *atonce.Inbox
	batch    []Message
	activity Activity
	full     int // batches in a row
}

func newReceiver(keys *atomic.Pointer[control.Keyring], to *inbox, f *familySocket, log *slog.Logger) *receiver {
	return &receiver{keys: keys, inbox: to, f: f, log: log, box: atonce.NewInbox(receiveBatch, maxDatagramOctets, receiveControlOctets), batch: to.free()}
}

// run reads until the context ends.
func (r *receiver) run(ctx context.Context) {
	for {
		time.Sleep(r.inbox.gatherPause())
		n, err := r.f.socket.receive(r.box)
		if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// An ICMP error about something sent earlier, or a momentary shortage.
			r.log.Debug("control socket", "error", err)
			time.Sleep(receiveErrorPause)
			continue
		}
		r.aggregate(n)
		keys := r.keys.Load()
		for i := range n {
			r.datagrams(keys, i)
		}
		r.enqueue()
	}
}

// aggregate has the kernel aggregate what comes (UDP_GRO) from the first time on that many datagrams wait. Not before: while any
// socket of the machine asks for that, the kernel looks for a socket for each UDP packet that an interface aggregates, also
// for those that are forwarded, and with many destinations each look is at another place in memory.
func (r *receiver) aggregate(datagrams int) {
	if datagrams < receiveBatch {
		r.full = 0
		return
	}
	if r.full++; r.full == fullBatchesInARow {
		_ = r.f.socket.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, udpGRO, 1) })
	}
}

// datagrams looks at each datagram of those that came as one.
func (r *receiver) datagrams(keys *control.Keyring, i int) {
	octets, about, from := r.box.Datagram(i)
	destination, segment := parseControl(about)
	local := netip.AddrPortFrom(destination, r.f.port)
	from = unmap(from)
	if segment <= 0 {
		segment = len(octets)
	}
	for {
		one := octets[:min(segment, len(octets))]
		octets = octets[len(one):]
		next := r.next()
		if next.Received, next.Refusal = control.InspectIn(next.scratchFor(one), keys, local, from, one); len(r.batch) == cap(r.batch) {
			r.enqueue()
		}
		if len(octets) == 0 {
			return
		}
	}
}

// next is the next element of the batch, with a scratch buffer.
func (r *receiver) next() *Message {
	at := len(r.batch)
	r.batch = r.batch[:at+1]
	next := &r.batch[at]
	if next.scratch == nil {
		next.scratch = new(control.Scratch)
	}
	return next
}

// enqueue hands the batch to the Node, or to the loop.
func (r *receiver) enqueue() {
	if len(r.batch) == 0 {
		return
	}
	rest := r.inbox.direct(&r.activity, r.batch)
	if len(rest) == 0 {
		r.batch = emptied(r.batch)
		return
	}
	left := len(rest)
	for i, from := 0, len(r.batch)-left; i < left && from > 0; i++ {
		r.batch[i], r.batch[from+i] = r.batch[from+i], r.batch[i] // a copy would leave two with one buffer
	}
	_ = emptied(r.batch[left:])
	if r.inbox.add(r.batch[:left]) {
		r.batch = r.inbox.free()
	} else {
		r.batch = emptied(r.batch)
	}
}

// parseControl finds the address that a message came to and the length of its segments; zero
// values where it does not say.
func parseControl(b []byte) (destination netip.Addr, segment int) {
	for len(b) > 0 {
		header, data, rest, err := unix.ParseOneSocketControlMessage(b)
		if err != nil {
			return destination, segment
		}
		switch {
		case header.Level == unix.IPPROTO_IP && header.Type == unix.IP_PKTINFO && len(data) >= 12:
			destination = netip.AddrFrom4([4]byte(data[8:12]))
		case header.Level == unix.IPPROTO_IPV6 && header.Type == unix.IPV6_PKTINFO && len(data) >= 16:
			destination = netip.AddrFrom16([16]byte(data[:16])).Unmap()
		case header.Level == unix.IPPROTO_UDP && header.Type == udpGRO && len(data) >= 4:
			segment = int(binary.NativeEndian.Uint32(data))
		}
		b = rest
	}
	return destination, segment
}
