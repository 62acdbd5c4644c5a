// SPDX-License-Identifier: Apache-2.0

// This file takes outer packets that came in fragments (RFC 9300 s.7). The programs leave fragments to the kernel,
// which puts them together within its own bounds (net.ipv4.ipfrag_high_thresh, net.ipv6.ip6frag_high_thresh) and
// delivers the datagram to a socket here; it goes back to the programs as a whole. So nothing else than fragmented
// packets comes here, and only that of core interfaces is taken; and control messages in data packets (Instance-ID
// 0xFFFFFF), which the programs leave to the kernel where they are from an RTR of the settings.

package underlay

import (
	"context"
	"encoding/binary"
	"errors"
	"iter"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/netspace"
	"loci/dataplane/kernel/tap"
	"loci/forward"
	"loci/lisp"
)

// bufferOctets is room for the control messages that an engine takes within a second (dataplane.MaxControlPackets), of
// which a small one may hold a page: what the meter keeps for routers in use is not lost before it is looked at.
const bufferOctets = 8 << 20

// ReassemblyParts are what a reassembly is made of.
type ReassemblyParts struct {
	Log    *slog.Logger
	Space  *netspace.Space
	IsCore func(ifindex uint32) bool // whether an interface leads to the core
	Device func() tap.TAP            // where the programs take packets back; it may become another one
	Drop   func(reason forward.DropReason, f tap.Frame)
	Done   *uint64 // how many packets came back

	Tell        func(dataplane.ControlPacket)
	ControlDone *uint64 // how many of them became events
}

// Reassembly has a socket for each data port of each own RLOC. One caller at a time may listen or close.
type Reassembly struct {
	ReassemblyParts
	sockets map[netip.AddrPort]*net.UDPConn
	running sync.WaitGroup

	rtrs     atomic.Pointer[[]lisp.RLOC] // of the settings
	metering sync.Mutex
	meter    dataplane.ControlMeter // guarded by metering
	adopting sync.Once
}

// NewReassembly makes one that listens nowhere yet.
func NewReassembly(p ReassemblyParts) *Reassembly {
	return &Reassembly{ReassemblyParts: p, sockets: map[netip.AddrPort]*net.UDPConn{}}
}

// dataPorts are where data packets come.
func dataPorts(s *dataplane.Settings) map[netip.AddrPort]bool {
	ports := map[netip.AddrPort]bool{}
	for _, rloc := range s.LocalRLOCs {
		ports[netip.AddrPortFrom(rloc.Addr(), forward.DataPort)] = true
		if s.TakesVXLANGPE() {
			ports[netip.AddrPortFrom(rloc.Addr(), forward.VXLANGPEPort)] = true
		}
	}
	return ports
}

// Listen opens sockets for the settings' data ports and closes all others. Control messages are taken from the
// settings' RTRs.
func (r *Reassembly) Listen(s *dataplane.Settings) {
	rtrs := slices.Clone(s.RTRs)
	r.rtrs.Store(&rtrs)
	wanted := dataPorts(s)
	for own, socket := range r.sockets {
		if !wanted[own] {
			_ = socket.Close()
			delete(r.sockets, own)
		}
	}
	for own := range wanted {
		if r.sockets[own] != nil {
			continue
		}
		socket, err := r.listenAtDataPort(own)
		if err != nil {
			r.Log.Warn("fragments of packets to an own RLOC are not put together", "rloc", own, "error", err)
			continue
		}
		r.sockets[own] = socket
		r.running.Go(func() { r.takeReassembled(socket, own) })
	}
}

// Close ends all of it.
func (r *Reassembly) Close() {
	for _, socket := range r.sockets {
		_ = socket.Close()
	}
	clear(r.sockets)
	r.running.Wait()
}

func (r *Reassembly) listenAtDataPort(own netip.AddrPort) (socket *net.UDPConn, err error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) {
			// Best effort: FORCE needs privileges, the plain call is capped by a sysctl.
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, bufferOctets)
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, bufferOctets)
			failed = wantOuterHeader(int(fd), own.Addr().Is4())
		})
		return errors.Join(err, failed)
	}}
	err = r.Space.Do(func() error {
		listener, err := config.ListenPacket(context.Background(), "udp", own.String())
		if err == nil {
			socket = listener.(*net.UDPConn)
		}
		return err
	})
	return socket, err
}

// wantOuterHeader makes a socket tell what the IP header was. The RLOC need not be there yet. Packets to locators may
// leave from its port: the kernel shall believe no ICMP error about them by itself (PMTUDISC_OMIT), Paths judges
// them.
func wantOuterHeader(fd int, four bool) error {
	if four {
		return errors.Join(
			unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_OMIT),
			unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_FREEBIND, 1), unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_RECVTTL, 1),
			unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_RECVTOS, 1), unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_PKTINFO, 1),
		)
	}
	return errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_OMIT),
		unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_FREEBIND, 1), unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_RECVHOPLIMIT, 1),
		unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_RECVTCLASS, 1), unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_RECVPKTINFO, 1),
		// RFC 6935 s.5: what comes for LISP may have no checksum.
		unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_NO_CHECK6_RX, 1),
	)
}

// takeReassembled reads datagrams until the socket is closed.
func (r *Reassembly) takeReassembled(socket *net.UDPConn, own netip.AddrPort) {
	payload, control := make([]byte, 1<<16), make([]byte, 256)
	for {
		n, c, _, from, err := socket.ReadMsgUDPAddrPort(payload, control)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(readErrorPause)
			continue
		}
		header, ok := readOuterHeader(control[:c])
		if !ok || !r.IsCore(header.ifindex) {
			continue
		}
		from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		if message, is := forward.ControlMessage(payload[:n]); is {
			r.takeControl(from, own, message)
			continue
		}
		outer := forward.Reassembled{Source: from, Destination: own, TTL: header.ttl, Class: header.class}
		r.bringBack(header, forward.AppendReassembled(make(tap.Frame, tap.VnetOctets+tap.EthernetOctets), outer, payload[:n]))
	}
}

// takeControl makes an event of a control message. The programs ask first who sent it, unless it came in fragments.
func (r *Reassembly) takeControl(from, own netip.AddrPort, message []byte) {
	switch {
	case !dataplane.IsAmongRTRs(*r.rtrs.Load(), from.Addr()):
		r.Drop(forward.DropControlSource, nil)
	case !r.mayTell(from, len(message)):
		r.Drop(forward.DropControlLimit, nil)
	default:
		atomic.AddUint64(r.ControlDone, 1)
		r.Tell(dataplane.ControlPacket{Source: from, Destination: own, Payload: slices.Clone(message)})
	}
}

// Note takes notice of an operation that the engine has carried out: sources that the map-cache sends to go first.
func (r *Reassembly) Note(o dataplane.Operation) {
	r.metering.Lock()
	defer r.metering.Unlock()
	r.meter.Note(o)
}

// Adopt takes notice of the mappings that an earlier process left. It does so once.
func (r *Reassembly) Adopt(mappings iter.Seq[dataplane.MapCacheEntry]) {
	r.adopting.Do(func() {
		for m := range mappings {
			r.Note(dataplane.PutMapping{Entry: m})
		}
	})
}

func (r *Reassembly) mayTell(from netip.AddrPort, octets int) bool {
	r.metering.Lock()
	defer r.metering.Unlock()
	return r.meter.Allow(time.Now(), from, octets)
}

// outerHeader is what a socket tells of the IP header.
type outerHeader struct {
	ttl, class uint8
	ifindex    uint32
}

func readOuterHeader(control []byte) (h outerHeader, ok bool) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return h, false
	}
	for _, m := range messages {
		kind := [2]int32{m.Header.Level, m.Header.Type}
		switch {
		case kind == [2]int32{unix.SOL_IP, unix.IP_TTL} && len(m.Data) >= 4, kind == [2]int32{unix.SOL_IPV6, unix.IPV6_HOPLIMIT} && len(m.Data) >= 4:
			h.ttl = uint8(binary.NativeEndian.Uint32(m.Data))
		case kind == [2]int32{unix.SOL_IP, unix.IP_TOS} && len(m.Data) >= 1:
			h.class = m.Data[0]
		case kind == [2]int32{unix.SOL_IPV6, unix.IPV6_TCLASS} && len(m.Data) >= 4:
			h.class = uint8(binary.NativeEndian.Uint32(m.Data))
		case kind == [2]int32{unix.SOL_IP, unix.IP_PKTINFO} && len(m.Data) >= unix.SizeofInet4Pktinfo:
			h.ifindex = binary.NativeEndian.Uint32(m.Data)
		case kind == [2]int32{unix.SOL_IPV6, unix.IPV6_PKTINFO} && len(m.Data) >= unix.SizeofInet6Pktinfo:
			h.ifindex = binary.NativeEndian.Uint32(m.Data[16:])
		}
	}
	return h, h.ttl != 0 && h.ifindex != 0
}

// bringBack writes the packet to the TAP, where the programs decapsulate it, or drops it while there is none.
func (r *Reassembly) bringBack(header outerHeader, f tap.Frame) {
	device := r.Device()
	ethernet := f.Ethernet()
	copy(ethernet, device.Mac[:])
	f.SetMagic(abi.TAPReassembled)
	binary.BigEndian.PutUint32(ethernet[8:], header.ifindex)
	protocol := uint16(unix.ETH_P_IP)
	if f.Packet()[0]>>4 == 6 {
		protocol = unix.ETH_P_IPV6
	}
	binary.BigEndian.PutUint16(ethernet[12:], protocol)
	if device.Write(f) != nil {
		r.Drop(forward.DropNoTAP, f)
		return
	}
	atomic.AddUint64(r.Done, 1)
}
