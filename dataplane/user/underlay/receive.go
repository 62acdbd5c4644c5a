// SPDX-License-Identifier: Apache-2.0

package underlay

// Receiving outer packets.

import (
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"

	"loci/dataplane/kernel/atonce"
	"loci/internal/waitread"
)

const (
	// receiveBatch is how many trains one system call takes.
	receiveBatch = 16
	trainOctets  = 1 << 16
)

// Train is a datagram that came, or several of one flow that the kernel joined: all but the last have Segment octets.
type Train struct {
	From    netip.AddrPort
	To      netip.Addr // outer destination
	Marks              // of the outer header
	Segment int        // 0 for a datagram alone
	Payload []byte
}

// Receiver is a socket at a port of the data plane.
type Receiver struct {
	port   uint16
	socket *socket
	inbox  *atonce.Inbox
	use    *waitread.Use // of the inbox
	trains int           // of its last call
	err    error         // likewise
	joins  bool

	failures []PathError // that the kernel told of during the last call
	control  []byte
}

// Receive opens a socket that shares the port with others of this process: the kernel keeps a flow to one of them.
func Receive(six bool, port uint16) (*Receiver, error) {
	s, err := open(six, netip.AddrPortFrom(netip.Addr{}, port), configureReceiver(six))
	if err != nil {
		return nil, err
	}
	r := &Receiver{port: port, socket: s, joins: s.takesTrains(unix.UDP_GRO, 1), inbox: atonce.NewInbox(receiveBatch, trainOctets, controlOctets), control: make([]byte, controlOctets)}
	r.use = waitread.NewUse(func(fd uintptr) bool {
		r.trains, r.err = r.inbox.Receive(fd)
		if isOfICMP(r.err) {
			r.takeErrors(int(fd))
			r.err = nil
			return true
		}
		return !errors.Is(r.err, unix.EAGAIN)
	})
	return r, nil
}

// Port is the port of the data plane.
func (r *Receiver) Port() uint16 { return r.port }

// Joins reports whether the kernel joins datagrams to trains. Otherwise each comes alone.
func (r *Receiver) Joins() bool { return r.joins }

// isOfICMP reports whether an error of reading only says that there was an ICMP error.
func isOfICMP(err error) bool {
	for _, e := range []error{
		unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EMSGSIZE, unix.EPROTO, unix.EACCES, unix.ENOPROTOOPT,
		unix.EOPNOTSUPP, unix.EHOSTDOWN, unix.ENONET,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// receivedErrors bounds the ICMP errors that one Await tells of.
const receivedErrors = 64

// takeErrors empties the queue of ICMP errors, which would take the room of what arrives.
func (r *Receiver) takeErrors(fd int) {
	var datagram [1]byte
	for {
		e, told, err := takeError(fd, datagram[:], r.control)
		if err != nil {
			return
		}
		if told && len(r.failures) < receivedErrors {
			e.Ported = true
			r.failures = append(r.failures, e)
		}
	}
}

// Failures are the ICMP errors that the last Await found about datagrams that left from the receiver's port.
func (r *Receiver) Failures() []PathError { return r.failures }

// Await takes what has come, and waits for it where nothing has. An error that IsClosed says that no more comes;
// others concern nothing but this call.
func (r *Receiver) Await() (trains int, err error) {
	r.failures = r.failures[:0]
	if err := r.use.Read(r.socket.file); err != nil {
		return 0, err
	}
	return r.trains, r.err
}

// Train is one of those that came with the last Await, in memory that the next one overwrites.
func (r *Receiver) Train(i int) Train {
	payload, control, from := r.inbox.Datagram(i)
	t := Train{From: from, Payload: payload}
	readMarks(&t, control)
	return t
}

// Close ends all waiting.
func (r *Receiver) Close() error { return r.socket.file.Close() }
