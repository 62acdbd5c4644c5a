// SPDX-License-Identifier: Apache-2.0

package daemon

// The control sockets: UDP port 4342 on IPv4 and IPv6 (RFC 9301 s.5). Datagrams
// are parsed and authenticated here, outside the Node's goroutine, and queued for
// it; a full queue drops and counts. Sending is a goroutine of its own, so that a
// slow socket never holds the Node up.

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

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"

	"loci/control"
)

const (
	receiveQueueLength = 4096
	sendQueueLength    = 4096
	// maxDatagramOctets is the largest UDP payload there is.
	maxDatagramOctets = 65535
	// receiveErrorPause keeps an error that persists from taking a whole processor.
	receiveErrorPause = time.Millisecond
	// socketBufferOctets absorbs bursts of control messages.
	socketBufferOctets = 4 << 20
)

// inbound is what a receiver hands to the loop: one of the two is set.
type inbound struct {
	received control.Received
	refusal  *control.Refusal
}

// sockets are the bound control sockets of both families.
type sockets struct {
	families []*familySocket
	keyring  *atomic.Pointer[control.Keyring]
	in       chan inbound
	out      chan control.SendPacket
	dropped  atomic.Uint64 // datagrams that found the receive queue full
	unsent   atomic.Uint64 // messages that could not be sent
	log      *slog.Logger
}

// familySocket hides the two families' different control messages.
type familySocket struct {
	conn    *net.UDPConn
	is4     bool
	port    uint16
	receive func(b []byte) (n int, local netip.Addr, from net.Addr, err error)
	send    func(b []byte, local netip.Addr, to net.Addr) error
}

// listen binds the port on every address given; none means all of both families.
func listen(addresses []netip.Addr, port uint16, log *slog.Logger) (*sockets, error) {
	s := &sockets{
		keyring: new(atomic.Pointer[control.Keyring]), log: log,
		in: make(chan inbound, receiveQueueLength), out: make(chan control.SendPacket, sendQueueLength),
	}
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
			s.close()
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
	udp := conn.(*net.UDPConn)
	f := &familySocket{conn: udp, is4: address.Addr().Is4(), port: udp.LocalAddr().(*net.UDPAddr).AddrPort().Port()}
	if f.is4 {
		return f, f.use4(ipv4.NewPacketConn(udp))
	}
	return f, f.use6(ipv6.NewPacketConn(udp))
}

func setSocketOptions(_, _ string, raw syscall.RawConn) error {
	return raw.Control(func(fd uintptr) {
		// Best effort: FORCE needs privileges, the plain call is capped by a sysctl.
		for _, option := range []int{unix.SO_RCVBUF, unix.SO_SNDBUF, unix.SO_RCVBUFFORCE, unix.SO_SNDBUFFORCE} {
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, option, socketBufferOctets)
		}
	})
}

func (f *familySocket) use4(p *ipv4.PacketConn) error {
	f.receive = func(b []byte) (int, netip.Addr, net.Addr, error) {
		n, cm, from, err := p.ReadFrom(b)
		return n, localOf(cm != nil, func() net.IP { return cm.Dst }), from, err
	}
	f.send = func(b []byte, local netip.Addr, to net.Addr) error {
		cm := &ipv4.ControlMessage{Src: ipOf(local)}
		_, err := p.WriteTo(b, cm, to)
		return err
	}
	return p.SetControlMessage(ipv4.FlagDst, true)
}

func (f *familySocket) use6(p *ipv6.PacketConn) error {
	f.receive = func(b []byte) (int, netip.Addr, net.Addr, error) {
		n, cm, from, err := p.ReadFrom(b)
		return n, localOf(cm != nil, func() net.IP { return cm.Dst }), from, err
	}
	f.send = func(b []byte, local netip.Addr, to net.Addr) error {
		cm := &ipv6.ControlMessage{Src: ipOf(local)}
		_, err := p.WriteTo(b, cm, to)
		return err
	}
	return p.SetControlMessage(ipv6.FlagDst, true)
}

func localOf(known bool, destination func() net.IP) netip.Addr {
	if !known {
		return netip.Addr{}
	}
	a, _ := netip.AddrFromSlice(destination())
	return a.Unmap()
}

// ipOf leaves the choice of the source to the kernel when the Node made none.
func ipOf(a netip.Addr) net.IP {
	if !a.IsValid() || a.IsUnspecified() {
		return nil
	}
	return a.AsSlice()
}

// run receives and sends until the context ends, then closes the sockets.
func (s *sockets) run(ctx context.Context) {
	var receivers sync.WaitGroup
	for _, f := range s.families {
		receivers.Go(func() { s.receiveFrom(ctx, f) })
	}
	s.sendAll(ctx)
	s.close()
	receivers.Wait()
}

func (s *sockets) close() {
	for _, f := range s.families {
		f.conn.Close()
	}
}

func (s *sockets) receiveFrom(ctx context.Context, f *familySocket) {
	buffer := make([]byte, maxDatagramOctets)
	for {
		n, local, from, err := f.receive(buffer)
		if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// An ICMP error about something sent earlier, or a momentary shortage.
			s.log.Debug("control socket", "error", err)
			time.Sleep(receiveErrorPause)
			continue
		}
		address := from.(*net.UDPAddr).AddrPort()
		s.enqueue(inspect(s.keyring.Load(), netip.AddrPortFrom(local, f.port), unmap(address), buffer[:n]))
	}
}

func inspect(keys *control.Keyring, local, from netip.AddrPort, b []byte) inbound {
	received, refusal := control.Inspect(keys, local, from, b)
	return inbound{received: received, refusal: refusal}
}

func (s *sockets) enqueue(i inbound) {
	select {
	case s.in <- i:
	default:
		s.dropped.Add(1)
	}
}

// queue takes a message for sending; a full queue drops it, as a full link would.
func (s *sockets) queue(p control.SendPacket) {
	select {
	case s.out <- p:
	default:
		s.unsent.Add(1)
	}
}

func (s *sockets) sendAll(ctx context.Context) {
	for {
		select {
		case p := <-s.out:
			s.send(p)
		case <-ctx.Done():
			s.sendQueued()
			return
		}
	}
}

// sendQueued sends what the Node still said when it stopped, briefly.
func (s *sockets) sendQueued() {
	deadline := time.Now().Add(time.Second)
	for len(s.out) > 0 && time.Now().Before(deadline) {
		s.send(<-s.out)
	}
}

func (s *sockets) send(p control.SendPacket) {
	for _, f := range s.families {
		if f.is4 != p.Remote.Addr().Unmap().Is4() {
			continue
		}
		if err := f.send(p.Payload, p.Local.Addr().Unmap(), net.UDPAddrFromAddrPort(p.Remote)); err != nil {
			s.unsent.Add(1)
			s.log.Debug("control message not sent", "to", p.Remote, "error", err)
		}
		return
	}
	s.unsent.Add(1)
	s.log.Debug("control message not sent: no socket of that family", "to", p.Remote)
}

func unmap(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}
