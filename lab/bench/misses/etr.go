// SPDX-License-Identifier: Apache-2.0

// The ETR of `loci bench miss`: it registers one prefix of each family (RFC 9301 s.5.6) and answers every Map-Request that
// the Map-Server forwards with a Map-Reply for exactly the EID that was asked for (RFC 9301 s.5.4), so that the next EID is
// a miss again. It obeys no rate limit: what is measured is not the ETR. Map-Requests that come alone are answered in the same way by a
// program at the ETR's link (bpf/bench_answer.h), so that no thread is woken for what is not measured.

package misses

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"loci/internal/testnet"
	"loci/lisp"
	"loci/wire"
)

const (
	registerEvery = time.Minute
	registerTries = 20
	notifyWait    = 250 * time.Millisecond
	replyTTL      = 1440 // minutes
	algorithmHKDF = 3    // HMAC-SHA256-128+HKDF-SHA256, what ships by default

	// etrBatch is how many Map-Requests are answered with two system calls, etrBufferOctets where more wait: the Map-Server
	// sends them in bursts, and what is lost here would be counted as the data plane's loss.
	etrBatch        = 64
	etrBufferOctets = 4 << 20
	etrOctets       = 2048 // of a message
)

// etr answers for the EIDs of missFamilies.
type etr struct {
	conn      *net.UDPConn
	rloc      netip.Addr
	mapServer netip.AddrPort
	key       string
	nonce     uint64
	stop      chan struct{}
	done      chan struct{}
}

func newETR(ns *testnet.Namespace, rloc, mapServer netip.Addr) (*etr, error) {
	conn, err := ns.ListenUDP(netip.AddrPortFrom(rloc, wire.ControlPort))
	if err != nil {
		return nil, err
	}
	if err := widenBuffer(conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &etr{
		conn: conn, rloc: rloc, mapServer: netip.AddrPortFrom(mapServer, wire.ControlPort), key: rand.Text(),
		nonce: uint64(time.Now().UnixNano()), stop: make(chan struct{}),
	}, nil
}

// mapServerConfig lets the ETR register its prefixes.
func (e *etr) mapServerConfig() string {
	var prefixes strings.Builder
	for _, f := range missFamilies {
		fmt.Fprintf(&prefixes, "        - {eid: %q}\n", f.remote)
	}
	return "map-server:\n  sites:\n    - name: bench\n      authentication-keys: [{auth-key-value: " + e.key + "}]\n      eid-prefixes:\n" +
		prefixes.String() + "map-resolver: {}\ncontrol:\n"
}

// register registers until it is acknowledged, then begins to answer, and to register again from time to time.
func (e *etr) register(ctx context.Context) error {
	buffer := make([]byte, 1<<16)
	for range registerTries {
		if err := errors.Join(ctx.Err(), e.sendRegister()); err != nil {
			return err
		}
		if err := e.conn.SetReadDeadline(time.Now().Add(notifyWait)); err != nil {
			return err
		}
		n, err := e.conn.Read(buffer)
		if err != nil {
			continue
		}
		if message, err := wire.Parse(buffer[:n]); err == nil && message.Type() == wire.TypeMapNotify {
			e.done = make(chan struct{})
			go e.serve()
			return e.conn.SetReadDeadline(time.Time{})
		}
	}
	return errors.New("the Map-Server acknowledges no Map-Register")
}

func (e *etr) sendRegister() error {
	e.nonce++
	register := &wire.MapRegister{
		WantMapNotify: true, Nonce: e.nonce, AlgorithmID: algorithmHKDF,
		Authentication: make([]byte, wire.FullMACOctets(algorithmHKDF)),
	}
	for _, f := range missFamilies {
		prefix, err := lisp.PrefixFromNetip(0, f.remote)
		if err != nil {
			return err
		}
		register.Records = append(register.Records, e.record(wire.AddressOf(prefix), uint8(f.remote.Bits())))
	}
	message, err := wire.AppendSigned(nil, register, []byte(e.key))
	if err != nil {
		return err
	}
	_, err = e.conn.WriteToUDPAddrPort(message, e.mapServer)
	return err
}

func (e *etr) record(eid wire.Address, bits uint8) wire.Record {
	return wire.Record{TTLMinutes: replyTTL, EID: eid, MaskLen: bits, Authoritative: true, Locators: []wire.LocatorRecord{{
		Priority: 1, Weight: 100, MulticastPriority: lisp.PriorityUnused, Local: true, Reachable: true,
		Address: wire.RLOCAddress(lisp.RLOCFromAddr(e.rloc)),
	}}}
}

// widenBuffer makes room for bursts of Map-Requests, beyond what the system's limit allows.
func widenBuffer(conn *net.UDPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, etrBufferOctets)
	})
	return errors.Join(err, failed)
}

// serve answers until the socket is closed.
func (e *etr) serve() {
	defer close(e.done)
	go e.refresh()
	socket := ipv4.NewPacketConn(e.conn)
	received, answers := make([]ipv4.Message, etrBatch), make([]ipv4.Message, 0, etrBatch)
	for i := range received {
		received[i].Buffers = [][]byte{make([]byte, etrOctets)}
	}
	for {
		n, err := socket.ReadBatch(received, 0)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		answers = answers[:0]
		for i := range max(n, 0) {
			if message, to, ok := e.answer(received[i].Buffers[0][:received[i].N]); ok {
				answers = append(answers, ipv4.Message{Buffers: [][]byte{message}, Addr: net.UDPAddrFromAddrPort(to)})
			}
		}
		for left := answers; len(left) > 0; {
			sent, err := socket.WriteBatch(left, 0)
			if err != nil {
				sent = max(sent, 0) + 1 // an answer that does not come shows in the figures
			}
			left = left[min(sent, len(left)):]
		}
	}
}

func (e *etr) refresh() {
	ticker := time.NewTicker(registerEvery)
	defer ticker.Stop()
	for {
		select {
		case <-e.stop:
			return
		case <-ticker.C:
			e.sendRegister() // a lost one is made up for by the next: registrations last for three
		}
	}
}

// answer makes the Map-Reply to a Map-Request. It ignores everything else: an answer that does not come shows in the figures.
func (e *etr) answer(packet []byte) (message []byte, to netip.AddrPort, ok bool) {
	outer, err := wire.Parse(packet)
	if err != nil {
		return nil, to, false
	}
	encapsulated, ok := outer.(*wire.EncapsulatedControlMessage)
	if !ok {
		return nil, to, false
	}
	inner, err := wire.Parse(encapsulated.Inner.Message)
	if err != nil {
		return nil, to, false
	}
	request, ok := inner.(*wire.MapRequest)
	if !ok || len(request.Records) == 0 || len(request.ITRRLOCs) == 0 {
		return nil, to, false
	}
	rloc, ok := wire.RLOCOf(request.ITRRLOCs[0])
	if !ok {
		return nil, to, false
	}
	asked := request.Records[0]
	reply := &wire.MapReply{Nonce: request.Nonce, Records: []wire.Record{e.record(asked.EID, asked.MaskLen)}}
	message, err = reply.AppendTo(nil)
	return message, netip.AddrPortFrom(rloc.Addr(), encapsulated.Inner.Source.Port()), err == nil
}

func (e *etr) close() error {
	close(e.stop)
	err := e.conn.Close()
	if e.done != nil {
		<-e.done
	}
	return err
}
