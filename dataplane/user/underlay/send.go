// SPDX-License-Identifier: Apache-2.0

package underlay

// Sending outer packets.

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"loci/dataplane/kernel/atonce"
	"loci/internal/waitread"
)

const (
	// poolSockets is how many source ports of each family flows are spread over.
	poolSockets = 16
	sendBatch   = 64

	// MaxSegments is how many datagrams the kernel takes as one train (UDP_MAX_SEGMENTS of Linux before 6.9).
	MaxSegments = 64
	// MaxTrainOctets is what fits a datagram of IPv4 before it is cut: a train has to.
	MaxTrainOctets = 65535 - 20 - 8
)

// Pool are the sockets that send, for all senders.
type Pool struct {
	sockets
	cuts  atomic.Bool
	bound atomic.Pointer[bindings]

	mu      sync.Mutex // guards what follows
	closed  bool
	running *sync.WaitGroup
	tell    func(PathError)
}

// sockets are those of each family.
type sockets struct{ four, six []*socket }

// NewPool opens them. A host without IPv6 has those of IPv4 alone.
func NewPool() (*Pool, error) {
	opened, err := openSockets(poolSockets, 0)
	if err != nil {
		return nil, err
	}
	p := &Pool{sockets: opened}
	p.cuts.Store(opened.four[0].takesTrains(unix.UDP_SEGMENT, 0))
	p.bound.Store(&bindings{links: map[netip.Addr]int{}, sockets: map[int]sockets{}, fixed: map[fixedAt]sockets{}})
	return p, nil
}

// Cuts reports whether the kernel cuts trains: it knows how, and has refused none because of an interface. Otherwise each datagram has
// to be sent alone.
func (p *Pool) Cuts() bool { return p.cuts.Load() }

// openSockets opens some sockets, bound to an interface unless that is 0.
func openSockets(count, link int) (opened sockets, err error) {
	for range count {
		four, err := openSender(false, link)
		if err != nil {
			return sockets{}, errors.Join(err, opened.close())
		}
		opened.four = append(opened.four, four)
		six, err := openSender(true, link)
		if IsWithoutIPv6(err) {
			continue
		}
		if err != nil {
			return sockets{}, errors.Join(fmt.Errorf("IPv6: %w", err), opened.close())
		}
		opened.six = append(opened.six, six)
	}
	return opened, nil
}

func (s sockets) close() error {
	var errs []error
	for _, one := range slices.Concat(s.four, s.six) {
		errs = append(errs, one.file.Close())
	}
	return errors.Join(errs...)
}

// choose is the socket for an address, nil where there is none.
func (s sockets) choose(to netip.Addr, flow uint16) *socket {
	of := s.four
	if to.Is6() {
		of = s.six
	}
	if len(of) == 0 {
		return nil
	}
	return of[int(flow)%len(of)]
}

// Close closes all.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	err := p.close()
	b := p.bound.Load()
	for _, s := range b.sockets {
		err = errors.Join(err, s.close())
	}
	for _, s := range b.fixed {
		err = errors.Join(err, s.close())
	}
	return err
}

// socket is the one that a datagram leaves by, nil where there is none.
func (p *Pool) socket(o *Outer) *socket {
	to, b := o.To.Addr(), p.bound.Load()
	if o.SourcePort != 0 {
		return b.fixed[fixedAt{b.links[to], o.SourcePort}].choose(to, 0)
	}
	if len(b.links) > 0 {
		if of, bound := b.sockets[b.links[to]]; bound {
			return of.choose(to, o.Flow)
		}
	}
	return p.choose(to, o.Flow)
}

// Outer is what the outer headers of a datagram or a train say.
type Outer struct {
	Source netip.Addr
	To     netip.AddrPort
	Flow   uint16 // chooses the source port, where that is 0
	// SourcePort is the port that the datagram leaves from, whatever its flow; FixPort has opened it.
	SourcePort uint16
	Marks           // TTL and traffic class
	Segment    int  // octets of each datagram of a train but the last; 0 for a datagram alone
	Relayed    bool // what is in it came from the core; for those who are told that it was refused
}

// Refused is a datagram or a train that the kernel did not send.
type Refused struct {
	To      netip.AddrPort
	Err     error
	Relayed bool
	Segment int
	Octets  []byte // a copy
}

// IsTooLong reports whether the path is too small for it, as far as this host knows.
func (r *Refused) IsTooLong() bool {
	// Kernels refuse trains whose segments are too long with either.
	return errors.Is(r.Err, unix.EMSGSIZE) || r.Segment > 0 && errors.Is(r.Err, unix.EINVAL)
}

// IsUncut reports whether the interface is why a train was not cut: Linux before 6.11 cuts none for one that computes no checksums.
func (r *Refused) IsUncut() bool { return r.Segment > 0 && errors.Is(r.Err, unix.EIO) }

// Datagrams are those of which it consists.
func (r *Refused) Datagrams() (datagrams [][]byte) {
	if r.Segment == 0 {
		return [][]byte{r.Octets}
	}
	return slices.Collect(slices.Chunk(r.Octets, r.Segment))
}

// Sender collects datagrams and sends them, many with one system call. One goroutine uses it at a time.
type Sender struct {
	pool    *Pool
	failed  func(Refused)
	socket  *socket
	box     *atonce.Outbox
	outer   [sendBatch]Outer
	control [sendBatch][controlOctets]byte
	waiting int

	use  *waitread.Use // of the box
	at   int           // the first of those that were not sent yet
	sent int           // by its last call
	err  error         // likewise
}

// NewSender makes a sender. It calls failed for each datagram or train that the kernel refused.
func NewSender(p *Pool, failed func(Refused)) *Sender {
	s := &Sender{pool: p, failed: failed, box: atonce.NewOutbox(sendBatch)}
	s.use = waitread.NewUse(func(fd uintptr) bool {
		s.sent, s.err = s.box.Send(fd, s.at)
		return !errors.Is(s.err, unix.EAGAIN)
	})
	return s
}

// Cuts is the Pool's.
func (s *Sender) Cuts() bool { return s.pool.Cuts() }

// Add takes a datagram or a train that is put together of pieces, whose memory must not change before Flush.
func (s *Sender) Add(o *Outer, pieces ...[]byte) {
	socket := s.pool.socket(o)
	if socket == nil {
		s.failed(Refused{To: o.To, Err: unix.EAFNOSUPPORT, Relayed: o.Relayed, Segment: o.Segment, Octets: slices.Concat(pieces...)})
		return
	}
	if s.waiting == sendBatch || s.waiting > 0 && socket != s.socket {
		s.Flush()
	}
	s.socket, s.outer[s.waiting] = socket, *o
	s.box.Add(o.To, appendMarks(s.control[s.waiting][:0], o), pieces...)
	s.waiting++
}

// Flush sends what was added. It waits while the socket has no room.
func (s *Sender) Flush() {
	refused := -1
	for s.at = 0; s.at < s.waiting; {
		s.sent, s.err = 0, nil
		closed := s.use.Write(s.socket.file)
		s.at += s.sent
		if closed == nil && s.err == nil {
			continue
		}
		// An ICMP error about an earlier datagram is told by the next call, which sends nothing: another attempt does.
		if refused != s.at && closed == nil {
			refused = s.at
			continue
		}
		o := &s.outer[s.at]
		s.fail(Refused{To: o.To, Err: errors.Join(closed, s.err), Relayed: o.Relayed, Segment: o.Segment, Octets: s.box.Octets(s.at)})
		s.at++
	}
	s.box.Forget()
	s.waiting = 0
}

// fail tells what was refused. After a train that was not cut there are no more.
func (s *Sender) fail(r Refused) {
	if r.IsUncut() {
		s.pool.cuts.Store(false)
	}
	s.failed(r)
}
