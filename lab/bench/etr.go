// SPDX-License-Identifier: Apache-2.0

// The ETR of `loci bench miss`: it registers one prefix of each family (RFC 9301 s.5.6) and answers every Map-Request that
// the Map-Server forwards with a Map-Reply for exactly the EID that was asked for (RFC 9301 s.5.4), so that the next EID is
// a miss again. It obeys no rate limit: what is measured is not the ETR.

package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

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

// serve answers until the socket is closed.
func (e *etr) serve() {
	defer close(e.done)
	go e.refresh()
	buffer := make([]byte, 1<<16)
	for {
		n, err := e.conn.Read(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			e.answer(buffer[:n])
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

// answer ignores what is no Map-Request: an answer that does not come shows in the figures.
func (e *etr) answer(packet []byte) {
	outer, err := wire.Parse(packet)
	if err != nil {
		return
	}
	encapsulated, ok := outer.(*wire.EncapsulatedControlMessage)
	if !ok {
		return
	}
	inner, err := wire.Parse(encapsulated.Inner.Message)
	if err != nil {
		return
	}
	request, ok := inner.(*wire.MapRequest)
	if !ok || len(request.Records) == 0 || len(request.ITRRLOCs) == 0 {
		return
	}
	to, ok := wire.RLOCOf(request.ITRRLOCs[0])
	if !ok {
		return
	}
	asked := request.Records[0]
	reply := &wire.MapReply{Nonce: request.Nonce, Records: []wire.Record{e.record(asked.EID, asked.MaskLen)}}
	message, err := reply.AppendTo(nil)
	if err != nil {
		return
	}
	e.conn.WriteToUDPAddrPort(message, netip.AddrPortFrom(to.Addr(), encapsulated.Inner.Source.Port()))
}

func (e *etr) close() error {
	close(e.stop)
	err := e.conn.Close()
	if e.done != nil {
		<-e.done
	}
	return err
}
