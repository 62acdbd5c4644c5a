// SPDX-License-Identifier: Apache-2.0

package transport

// The control sockets: UDP port 4342 on IPv4 and IPv6 (RFC 9301 s.5). What comes in is
// receive.go's, what goes out send.go's; both go through bounded queues.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"loci/control"
)

const (
	// receiveQueueLength is in batches.
	receiveQueueLength = 256
	// maxDatagramOctets is the largest UDP payload there is.
	maxDatagramOctets = 65535
	// receiveErrorPause keeps an error that persists from taking a whole processor.
	receiveErrorPause = time.Millisecond
	// socketBufferOctets absorbs bursts of control messages.
	socketBufferOctets = 4 << 20
)

// Sockets are the bound control sockets of both families.
type Sockets struct {
	families []*familySocket
	keyring  *atomic.Pointer[control.Keyring]
	in       chan []Message
	queued   atomic.Int64                                        // batches that the loop has not dealt with
	direct   func(a *Activity, batch []Message) (rest []Message) // tries to hand messages to the Node; the loop gets the rest
	done     chan []Message                                      // batches to be used again
	out      *outbox
	sender   *sender
	said     []control.SendPacket // by the turn under way; the loop's
	dropped  atomic.Uint64        // datagrams that found the receive queue full
	unsent   atomic.Uint64        // messages that could not be sent
	log      *slog.Logger
}

// familySocket hides the two families' different control messages.
type familySocket struct {
	socket *datagramSocket
	is4    bool
	port   uint16

	source       netip.Addr // the last one chosen, with its control message; the sender's
	sourceOctets []byte
}

// Listen binds the port on every address given; none means all of both families.
func Listen(addresses []netip.Addr, port uint16, log *slog.Logger) (*Sockets, error) {
	s := &Sockets{
		keyring: new(atomic.Pointer[control.Keyring]), log: log,
		in: make(chan []Message, receiveQueueLength), done: make(chan []Message, receiveQueueLength), out: newOutbox(),
	}
	s.direct = func(_ *Activity, batch []Message) []Message { return batch }
	s.sender = newSender(s)
	anywhere := len(addresses) == 0
	if anywhere {
		addresses = []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}
	}
	for _, address := range addresses {
		family, err := listenFamily(netip.AddrPortFrom(address, port))
		if anywhere && errors.Is(err, syscall.EAFNOSUPPORT) {
			log.Warn("this system has no such address family", "address", address)
			continue
		}
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("control socket %s: %w", netip.AddrPortFrom(address, port), err)
		}
		s.families = append(s.families, family)
	}
	if len(s.families) == 0 {
		return nil, errors.New("control sockets: this system has neither IPv4 nor IPv6")
	}
	return s, nil
}

func listenFamily(address netip.AddrPort) (*familySocket, error) {
	network := "udp6"
	if address.Addr().Is4() {
		network = "udp4"
	}
	config := net.ListenConfig{Control: setSocketOptions}
	conn, err := config.ListenPacket(context.Background(), network, address.String())
	if err != nil {
		return nil, err
	}
	socket, err := newDatagramSocket(conn.(*net.UDPConn))
	if err != nil {
		return nil, err
	}
	f := &familySocket{socket: socket, is4: address.Addr().Is4(), port: socket.local.Port()}
	return f, f.askForDestinations()
}

func setSocketOptions(_, _ string, raw syscall.RawConn) error {
	return raw.Control(func(fd uintptr) {
		// Best effort: FORCE needs privileges, the plain call is capped by a sysctl.
		for _, option := range []int{unix.SO_RCVBUF, unix.SO_SNDBUF, unix.SO_RCVBUFFORCE, unix.SO_SNDBUFFORCE} {
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, option, socketBufferOctets)
		}
	})
}

// askForDestinations has each datagram say which address it came to.
func (f *familySocket) askForDestinations() error {
	level, option := unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO
	if f.is4 {
		level, option = unix.IPPROTO_IP, unix.IP_PKTINFO
	}
	var failed error
	err := f.socket.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), level, option, 1) })
	return errors.Join(err, failed)
}

// hostnet.FamilyOf is the socket for an address, nil where there is none.
func (s *Sockets) familyOf(a netip.Addr) *familySocket {
	for _, f := range s.families {
		if f.is4 == a.Unmap().Is4() {
			return f
		}
	}
	return nil
}

// Run receives and sends until the context ends, then closes the sockets.
func (s *Sockets) Run(ctx context.Context) {
	var receivers sync.WaitGroup
	for _, f := range s.families {
		receivers.Go(func() { newReceiver(s, f).run(ctx) })
	}
	s.sender.run(ctx)
	s.Close()
	receivers.Wait()
}

// Close ends all receiving and sending.
func (s *Sockets) Close() {
	for _, f := range s.families {
		f.socket.Close()
	}
}

// Messages are what came, in batches; whoever takes one releases it.
func (s *Sockets) Messages() <-chan []Message { return s.in }

// Waiting reports whether a batch waits, or is not released yet.
func (s *Sockets) Waiting() bool { return s.queued.Load() != 0 }

// SetKeyring says by which keys messages are authenticated from now on.
func (s *Sockets) SetKeyring(keys *control.Keyring) { s.keyring.Store(keys) }

// ReceiveDirectly has receivers offer what they read to take first, which returns what is left for messages.
func (s *Sockets) ReceiveDirectly(take func(a *Activity, batch []Message) (rest []Message)) {
	s.direct = take
}

// Backlogged says that who can wait with what he wants to send should.
func (s *Sockets) Backlogged() bool { return s.out.isHalfFull() }

// Dropped is how many datagrams found the receive queue full.
func (s *Sockets) Dropped() uint64 { return s.dropped.Load() }

// Unsent is how many messages could not be sent.
func (s *Sockets) Unsent() uint64 { return s.unsent.Load() }

// Queue takes a message for sending; it leaves with the others of the turn.
func (s *Sockets) Queue(p control.SendPacket) { s.said = append(s.said, p) }

// EndTurn sends what a turn said, or hands it over to the sender; a full queue drops it, as a
// full link would.
func (s *Sockets) EndTurn() {
	if len(s.said) == 0 {
		return
	}
	left := s.said
	if len(left) <= sentAtOnce {
		left = s.sender.sendAtOnce(left)
	}
	if len(left) > 0 {
		s.unsent.Add(uint64(s.out.add(left)))
	}
	clear(s.said)
	s.said = s.said[:0]
}

func unmap(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}
