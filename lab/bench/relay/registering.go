// SPDX-License-Identifier: Apache-2.0

package relay

// The nodes: they register by the RTR, as routers behind a NAT do (draft-ermagan-lisp-nat-traversal s.5.1), from the
// data port.

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/netip"
	"time"

	"loci/internal/testnet"
	"loci/lab/bench/testbed"
	"loci/lisp"
	"loci/wire"
)

const (
	registerTries  = 20
	notifyWait     = 250 * time.Millisecond
	recordsAtOnce  = 20   // a Map-Register fits a packet
	registerTTL    = 1440 // minutes: longer than any run
	algorithmHKDF  = 3    // HMAC-SHA256-128+HKDF-SHA256, what ships by default
	messageMaximum = 2048 // octets
)

// eidsOf are the first EIDs of the nodes.
func eidsOf(p testbed.Pair, count int) iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		for eid, i := nodeEIDs(p).Addr(), 0; i < count && yield(eid); eid, i = eid.Next(), i+1 {
		}
	}
}

// registrar is all nodes at one address.
type registrar struct {
	conn  *net.UDPConn
	pair  testbed.Pair
	key   string
	nonce uint64
}

// registerAll registers the EIDs of all nodes, a message at a time, until the RTR has passed on the Map-Notify of each.
func registerAll(ctx context.Context, at *testnet.Namespace, p testbed.Pair, key string, each int) error {
	conn, err := at.ListenUDP(netip.AddrPortFrom(decRLOC(p), wire.DataPort))
	if err != nil {
		return err
	}
	r := &registrar{conn: conn, pair: p, key: key, nonce: uint64(time.Now().UnixNano())}
	return errors.Join(r.registerAll(ctx, each), conn.Close())
}

func (r *registrar) registerAll(ctx context.Context, each int) error {
	var records []wire.Record
	done := 0
	for eid := range eidsOf(r.pair, each) {
		records = append(records, r.record(eid))
		if done++; len(records) < recordsAtOnce && done < each && done%mostOfNode != 0 {
			continue
		}
		if err := r.register(ctx, uint64((done-1)/mostOfNode), records); err != nil {
			return err
		}
		records = records[:0]
	}
	return nil
}

// register sends a Map-Register of a node until it is acknowledged.
func (r *registrar) register(ctx context.Context, node uint64, records []wire.Record) error {
	r.nonce++
	m := &wire.MapRegister{
		WantMapNotify: true, UseTTL: true, XTRIDPresent: true, SiteID: node + 1, Nonce: r.nonce, Records: records,
		AlgorithmID: algorithmHKDF, Authentication: make([]byte, wire.FullMACOctets(algorithmHKDF)),
	}
	binary.BigEndian.PutUint64(m.XTRID[8:], node+1)
	signed, err := wire.AppendSigned(nil, m, []byte(r.key))
	if err != nil {
		return err
	}
	ecm := wire.EncapsulatedControlMessage{ForRTR: true, Inner: wire.InnerPacket{
		Source:      netip.AddrPortFrom(decRLOC(r.pair), wire.ControlPort),
		Destination: netip.AddrPortFrom(encRLOC(r.pair), wire.ControlPort), Message: signed,
	}}
	message, err := ecm.AppendTo(nil)
	if err != nil {
		return err
	}
	for range registerTries {
		if _, err := r.conn.WriteToUDPAddrPort(message, netip.AddrPortFrom(relRLOC(r.pair), wire.ControlPort)); err != nil {
			return err
		}
		if acknowledged, err := r.awaitNotify(); acknowledged || err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return fmt.Errorf("the RTR passes on no Map-Notify to %s", decRLOC(r.pair))
}

// awaitNotify waits for a control message in a data packet. Only one Map-Register is ever on its way.
func (r *registrar) awaitNotify() (acknowledged bool, err error) {
	buffer := make([]byte, messageMaximum)
	if err := r.conn.SetReadDeadline(time.Now().Add(notifyWait)); err != nil {
		return false, err
	}
	for {
		n, err := r.conn.Read(buffer)
		if err != nil {
			return false, nil
		}
		if h, _, err := wire.ParseDataHeader(buffer[:n]); err == nil && h.Instance && h.InstanceID == lisp.ControlInstanceID {
			return true, nil
		}
	}
}

// record has the node's RLOC, which only the RTR reaches, and the RTR.
func (r *registrar) record(eid netip.Addr) wire.Record {
	own := wire.LocatorRecord{Priority: 1, Weight: 100, MulticastPriority: lisp.PriorityUnused, Local: true, Address: wire.RLOCAddress(lisp.RLOCFromAddr(decRLOC(r.pair)))}
	rtr := own
	rtr.Local, rtr.Reachable, rtr.Address = false, true, wire.RLOCAddress(lisp.RLOCFromAddr(relRLOC(r.pair)))
	prefix, _ := lisp.PrefixFromNetip(0, netip.PrefixFrom(eid, eid.BitLen())) // each address of the family has one
	return wire.Record{
		TTLMinutes: registerTTL, EID: wire.AddressOf(prefix), MaskLen: uint8(eid.BitLen()), Authoritative: true,
		Locators: []wire.LocatorRecord{own, rtr},
	}
}
