// SPDX-License-Identifier: Apache-2.0

package transport

// The control sockets: UDP port 4342 on IPv4 and IPv6 (RFC 9301 s.5). What comes in is
// receive.go's, what goes out send.go's; both go through bounded queues.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"

	"loci/control"
)

// Sockets are the bound control sockets of both families.
type Sockets struct {
	families []*familySocket
	keyring  *atomic.Pointer[control.Keyring]
	inbox    *inbox
	sender   *sender
	said     []control.SendPacket // in the iteration under way; the loop's
	log      *slog.Logger
}

// Listen binds the port on every address given; none means all of both families.
func Listen(addresses []netip.Addr, port uint16, log *slog.Logger) (*Sockets, error) {
	s := &Sockets{
		keyring: new(atomic.Pointer[control.Keyring]), log: log,
		inbox: newInbox(),
	}
	anywhere := len(addresses) == 0
	if anywhere {
		addresses = []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}
	}
	for _, address := range addresses {
		family, err := listenFamily(netip.AddrPortFrom(address, port), setSocketOptions)
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
	s.sender = newSender(s.families, log)
	return s, nil
}

// Run receives and sends until the context ends, then closes the sockets.
func (s *Sockets) Run(ctx context.Context) {
	var receivers sync.WaitGroup
	for _, f := range s.families {
		receivers.Go(func() { newReceiver(s.keyring, s.inbox, f, s.log).run(ctx) })
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
	if s.sender != nil {
		s.sender.data.close()
	}
}

// Messages are what came, in batches, each of which its reader releases.
func (s *Sockets) Messages() <-chan []Message { return s.inbox.in }

// Release gives back a batch that the event loop is done with.
func (s *Sockets) Release(batch []Message) { s.inbox.release(batch) }

// Waiting reports whether a batch waits, or is not released yet.
func (s *Sockets) Waiting() bool { return s.inbox.queued.Load() != 0 }

// SetKeyring says by which keys messages are authenticated from now on.
func (s *Sockets) SetKeyring(keys *control.Keyring) { s.keyring.Store(keys) }

// ReceiveDirectly has receivers offer what they read to take first, which returns what is left for messages.
func (s *Sockets) ReceiveDirectly(take func(a *Activity, batch []Message) (rest []Message)) {
	s.inbox.direct = take
}

// Backlogged says that callers which can wait with their messages should.
func (s *Sockets) Backlogged() bool { return s.sender.out.isHalfFull() }

// Dropped is how many datagrams found the receive queue full.
func (s *Sockets) Dropped() uint64 { return s.inbox.dropped.Load() }

// Unsent is how many messages could not be sent.
func (s *Sockets) Unsent() uint64 { return s.sender.unsent.Load() }

// Queue takes a message for sending; it leaves with the others of the iteration.
func (s *Sockets) Queue(p control.SendPacket) { s.said = append(s.said, p) }

// EndIteration sends what an iteration said, or hands it over to the sender; a full queue drops it, as a
// full link would.
func (s *Sockets) EndIteration() {
	if len(s.said) == 0 {
		return
	}
	left := s.said
	if len(left) <= sentAtOnce {
		left = s.sender.sendAtOnce(left)
	}
	if len(left) > 0 {
		s.sender.unsent.Add(uint64(s.sender.out.add(left)))
	}
	clear(s.said)
	s.said = s.said[:0]
}
