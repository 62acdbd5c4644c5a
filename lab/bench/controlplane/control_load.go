// SPDX-License-Identifier: Apache-2.0

// The load of `loci bench control`: all xTRs and ITRs as one socket. It registers (RFC 9301 s.5.6), asks (s.5.8), and looks at
// every message that comes back. Messages of one sender that go out together leave as one for the kernel to cut apart, as a
// card with receive offload would hand them to the server.

package controlplane

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"loci/internal/testnet"
	"loci/lab/bench/testbed"
	"loci/lisp"
	"loci/wire"
)

const (
	controlXTRs  = 1000
	requestBurst = 32 // Map-Requests of one ITR that come together

	controlKey = "key-of-loci-bench-control"
	loadWindow = 1024 // messages without an answer at once
	// loadWindowApart is for messages that the kernel does not put together. They and the answers find room in the queues
	// on both sides: a core's backlog of 1,000 packets, and at the server's link as many before the ring.
	loadWindowApart = 768
	loadBatch       = 64 // messages of one system call
	// loadStall is how long answers are waited for. Where it was a tenth of that, a load that had no processor for so
	// long took what was under way for lost, sent as much again, and the ring lost what it had no room for.
	loadStall = time.Second
	loadPace  = time.Millisecond
	// loadRequests are made in advance; they are repeated.
	loadRequests = 1 << 16
	loadITRs     = 4096

	algorithmHKDF = 3 // HMAC-SHA256-128+HKDF-SHA256, what ships by default

	udpSegmentOption = 103
	udpGROOption     = 104
	loadBufferOctets = 64 << 20
)

// requestSet is which Map-Requests are sent.
type requestSet struct {
	name    string
	proxied bool
	burst   int // of one ITR that go out together
	window  int // without an answer at once
}

var (
	requestsProxied      = requestSet{"proxied", true, requestBurst, loadWindow}
	requestsProxiedApart = requestSet{"apart", true, 1, loadWindowApart}
	requestsForwarded    = requestSet{"forwarded", false, requestBurst, loadWindowApart}
)

// loadPlan is what is sent. A rate of 0 is as fast as answers come.
type loadPlan struct {
	requests                  []request
	burst                     int
	window                    int // messages without an answer at once; 0 is loadWindow
	records                   int // of each Map-Register; 0 for none
	requestRate, registerRate float64
	length                    time.Duration
	to                        *net.UDPAddr // where requests go; nil is the server
}

// loadOutcome is what came of it.
type loadOutcome struct {
	asked, answered, registered, notified int
	lost                                  int // not waited for any more
	took                                  time.Duration
	delays                                []float64 // nanoseconds, sorted
}

// request is a Map-Request of an ITR, ready to be sent.
type request struct {
	from    netip.Addr
	payload []byte
}

// mapLoad is the socket and what it expects.
type mapLoad struct {
	conn     *net.UDPConn
	packets  *ipv4.PacketConn
	server   *net.UDPAddr
	mappings int
	nonce    uint64 // of Map-Registers
	next     int    // mapping that is registered next
	sets     map[string][]request
	messages []ipv4.Message

	sentAt             []atomic.Int64 // by nonce of Map-Requests less one
	notified, answered atomic.Int64
	wrong              atomic.Int64
	keep               atomic.Bool
	delays             chan []float64
	began              time.Time
}

func newMapLoad(ns *testnet.Namespace, mappings int) (*mapLoad, error) {
	conn, err := ns.ListenUDP(netip.AddrPortFrom(netip.IPv4Unspecified(), wire.ControlPort))
	if err != nil {
		return nil, err
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = errors.Join(unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, udpGROOption, 1),
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, loadBufferOctets),
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, loadBufferOctets))
	})
	m := &mapLoad{
		conn: conn, packets: ipv4.NewPacketConn(conn), server: net.UDPAddrFromAddrPort(netip.AddrPortFrom(controlServer, wire.ControlPort)),
		mappings: mappings, nonce: uint64(time.Now().UnixNano()), sets: map[string][]request{}, sentAt: make([]atomic.Int64, loadRequests),
		delays: make(chan []float64, 1), began: time.Now(),
	}
	m.delays <- nil
	go m.receive()
	return m, errors.Join(err, failed)
}

func (m *mapLoad) close() error { return m.conn.Close() }

// peer is the n-th address of one of the two halves of controlPeers.
func peer(half, n int) netip.Addr {
	return netip.AddrFrom4([4]byte{172, byte(30 + half), byte(n >> 8), byte(n)})
}

// mapping is the i-th EID-Prefix with its locators; xtr is who registers it.
func (m *mapLoad) mapping(i int) (mapping lisp.Mapping, xtr int) {
	xtr = i * controlXTRs / m.mappings
	k := i / 2
	address, bits := netip.AddrFrom4([4]byte{10, byte(k >> 12), byte(k >> 4), byte(k << 4)}), 28
	if i%2 == 1 {
		address, bits = netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0x10 | byte(k>>16), byte(k >> 8), byte(k)}), 56
	}
	prefix, _ := lisp.PrefixFrom(0, lisp.EIDFromAddr(address), bits)
	rloc := peer(0, xtr).As4()
	v6 := netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 1, 14: rloc[2], 15: rloc[3]})
	return lisp.Mapping{Prefix: prefix, TTLMinutes: 1440, Locators: lisp.LocatorSet{
		{RLOC: lisp.RLOCFromAddr(peer(0, xtr)), Priority: 1, Weight: 50, Local: true, Reachable: true},
		{RLOC: lisp.RLOCFromAddr(v6), Priority: 1, Weight: 50, Local: true, Reachable: true},
	}}, xtr
}

// register is the next Map-Register; all its mappings are of one xTR.
func (m *mapLoad) register(records int) (from netip.Addr, payload []byte, err error) {
	m.nonce++
	_, xtr := m.mapping(m.next)
	r := wire.MapRegister{
		WantMapNotify: true, ProxyReply: xtr%2 == 0, XTRIDPresent: true, XTRID: [16]byte{byte(xtr >> 8), byte(xtr)}, SiteID: 1,
		Nonce: m.nonce, AlgorithmID: algorithmHKDF, Authentication: make([]byte, wire.FullMACOctets(algorithmHKDF)),
	}
	for len(r.Records) < records && m.next < m.mappings {
		mapping, owner := m.mapping(m.next)
		if owner != xtr {
			break
		}
		r.Records = append(r.Records, wire.RecordOf(mapping))
		m.next++
	}
	m.next %= m.mappings
	payload, err = wire.AppendSigned(nil, &r, []byte(controlKey))
	return peer(0, xtr), payload, err
}

// registerAll registers every mapping once.
func (m *mapLoad) registerAll(ctx context.Context, records int) error {
	m.next = 0
	messages := 0
	for done := false; !done; {
		if err := ctx.Err(); err != nil {
			return err
		}
		batch := m.messages[:0]
		for len(batch) < loadBatch && !done {
			from, payload, err := m.register(records)
			if err != nil {
				return err
			}
			batch = append(batch, message(m.server, from, payload))
			done = m.next == 0
		}
		before := m.notified.Load()
		if err := m.write(batch); err != nil {
			return err
		}
		messages += len(batch)
		m.await(func() bool { return m.notified.Load() >= before+int64(len(batch)/2) })
	}
	m.await(func() bool { return m.notified.Load() >= int64(messages) })
	return nil
}

// await waits for answers, but not for lost ones.
func (m *mapLoad) await(done func() bool) {
	for deadline := time.Now().Add(loadStall); !done() && time.Now().Before(deadline); {
		time.Sleep(50 * time.Microsecond)
	}
}

// requestsOf makes the Map-Requests of a set, once.
func (m *mapLoad) requestsOf(set requestSet) []request {
	if made := m.sets[set.name]; made != nil {
		return made
	}
	random := rand.New(rand.NewPCG(1, 2))
	all := make([]request, loadRequests)
	for n := range all {
		burst := n / set.burst
		itr := peer(1, burst%loadITRs)
		all[n] = request{itr, m.request(random, uint64(n)+1, itr, set.proxied, burst%2)}
	}
	m.sets[set.name] = all
	return all
}

// request asks for an EID of a family, in a mapping that the server answers for or not.
func (m *mapLoad) request(random *rand.Rand, nonce uint64, itr netip.Addr, proxied bool, family int) []byte {
	for {
		mapping, xtr := m.mapping(random.IntN(m.mappings/2)*2 + family)
		if (xtr%2 == 0) != proxied {
			continue
		}
		eid := lisp.HostPrefix(0, mapping.Prefix.EID())
		r := wire.MapRequest{Nonce: nonce}
		r.Ask(lisp.EID{}, []lisp.RLOC{lisp.RLOCFromAddr(itr)}, eid)
		inner, err := r.AppendTo(nil)
		if err != nil {
			panic(err) // of constants
		}
		source := netip.AddrPortFrom(itr, wire.ControlPort)
		if family == 1 {
			source = netip.AddrPortFrom(netip.MustParseAddr("2001:db8:2000::1"), wire.ControlPort)
		}
		b, err := wire.AppendECM(nil, source, netip.AddrPortFrom(eid.EID().Addr(), wire.ControlPort), inner)
		if err != nil {
			panic(err)
		}
		return b
	}
}

// run carries out a plan.
func (m *mapLoad) run(ctx context.Context, p loadPlan) (o loadOutcome, err error) {
	p.to = cmp.Or(p.to, m.server)
	<-m.delays
	m.delays <- nil
	m.keep.Store(p.requestRate > 0)
	answered, notified := m.answered.Load(), m.notified.Load()
	began := time.Now()
	for elapsed := time.Duration(0); elapsed < p.length; elapsed = time.Since(began) {
		if err := ctx.Err(); err != nil {
			return o, err
		}
		got := int(m.answered.Load() - answered + m.notified.Load() - notified)
		sent, err := m.step(p, &o, elapsed, got)
		if err != nil {
			return o, err
		}
		switch {
		case p.requestRate > 0:
			time.Sleep(loadPace)
		case sent == 0:
			m.stall(&o, got, answered+notified)
		}
	}
	o.took = time.Since(began)
	m.await(func() bool {
		return m.answered.Load()+m.notified.Load()-answered-notified >= int64(o.asked+o.registered)
	})
	o.answered, o.notified = int(m.answered.Load()-answered), int(m.notified.Load()-notified)
	o.delays = <-m.delays
	m.delays <- nil
	slices.Sort(o.delays)
	if wrong := m.wrong.Load(); wrong > 0 {
		return o, fmt.Errorf("%d answers are wrong", wrong)
	}
	return o, nil
}

// stall waits until something comes back; what does not come for long is lost, and does not count as being under way.
func (m *mapLoad) stall(o *loadOutcome, got int, before int64) {
	moved := func() bool { return int(m.answered.Load()+m.notified.Load()-before) > got }
	m.await(moved)
	if !moved() {
		o.lost += o.asked + o.registered - o.lost - got
	}
}

// step sends what is due.
func (m *mapLoad) step(p loadPlan, o *loadOutcome, elapsed time.Duration, got int) (sent int, err error) {
	free := cmp.Or(p.window, loadWindow) - (o.asked + o.registered - o.lost - got)
	requests, registers := free, free
	if p.requestRate > 0 {
		requests = int(p.requestRate*elapsed.Seconds()) - o.asked
		registers = int(p.registerRate*elapsed.Seconds()) - o.registered
	}
	batch := m.messages[:0]
	for p.records > 0 && registers > 0 && len(batch) < loadBatch {
		from, payload, err := m.register(p.records)
		if err != nil {
			return 0, err
		}
		batch = append(batch, message(m.server, from, payload))
		o.registered++
		registers--
	}
	now := int64(time.Since(m.began))
	for len(p.requests) > 0 && requests >= p.burst && len(batch) < loadBatch {
		at := o.asked % len(p.requests)
		together := p.requests[at:min(at+p.burst, len(p.requests))]
		one := ipv4.Message{Addr: p.to, OOB: controlOf(together[0].from, len(together), len(together[0].payload))}
		for i := range together {
			m.sentAt[at+i].Store(now)
			one.Buffers = append(one.Buffers, together[i].payload)
		}
		batch = append(batch, one)
		o.asked += len(together)
		requests -= len(together)
	}
	return len(batch), m.write(batch)
}

func message(to *net.UDPAddr, from netip.Addr, payload []byte) ipv4.Message {
	return ipv4.Message{Addr: to, Buffers: [][]byte{payload}, OOB: controlOf(from, 1, len(payload))}
}

// controlOf chooses the source address, and says where the kernel cuts.
func controlOf(from netip.Addr, segments, octets int) []byte {
	b := (&ipv4.ControlMessage{Src: from.AsSlice()}).Marshal()
	if segments == 1 {
		return b
	}
	at := len(b)
	b = append(b, make([]byte, unix.CmsgSpace(2))...)
	binary.NativeEndian.PutUint64(b[at:], uint64(unix.CmsgLen(2)))
	binary.NativeEndian.PutUint32(b[at+8:], unix.IPPROTO_UDP)
	binary.NativeEndian.PutUint32(b[at+12:], udpSegmentOption)
	binary.NativeEndian.PutUint16(b[at+16:], uint16(octets))
	return b
}

func (m *mapLoad) write(batch []ipv4.Message) error {
	for len(batch) > 0 {
		n, err := m.packets.WriteBatch(batch, 0)
		if err != nil {
			return err
		}
		batch = batch[n:]
	}
	return nil
}

var (
	controlServer = testbed.Nth(testbed.Pairs[0].Sources, 1)
	// controlPeers are the addresses of all xTRs and ITRs, at the load's end of the link.
	controlPeers = netip.MustParsePrefix("172.30.0.0/15")
)
