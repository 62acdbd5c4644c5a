// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/mapcache"
	"loci/control/internal/reach"
	"loci/control/internal/settings"
	"loci/control/internal/system"
	"loci/lisp"
	"loci/wire"
)

// tinyLimits make every table overflow.
func tinyLimits() Limits {
	return Limits{
		RateTable: 8, MapCacheEntries: 8, Locators: 6, SMRPeers: 6, PendingRequests: 8, Registrations: 8, RegistrationsPerSite: 6,
		RegistrantsPerPrefix: 2, ReplayEntriesPerSite: 4, Notifications: 3, MoreSpecificsPerReply: 4,
	}
}

// fullNode has all roles, with overlapping EID-Prefixes of all kinds.
func fullNode(t testing.TB) *Node {
	t.Helper()
	c := xtrConfig(1, "192.0.2.100", []string{"192.0.2.1", "2001:db8:f::1"}, "10.1.0.0/16", "10.1.2.0/24", "[5]2001:db8:1::/48")
	ms := mapServerConfig("10.0.0.0/8 2001:db8::/32 [5]2001:db8::/32", "02:00:00:00:00:00/16 \"ietf\"/32")
	c.ITR.RLOCProbing.Off = false
	c.MapServer, c.MapResolver, c.Limits = ms.MapServer, ms.MapResolver, tinyLimits()
	c.MapResolver.MapServers = []MapServerRoute{{Address: addrPort("192.0.2.50"), Prefixes: []lisp.Prefix{lisp.MustParsePrefix("172.16.0.0/12")}}}
	n, err := New(c, epoch, testRandom(1))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// checkLimits fails when a table is larger than it may be.
func checkLimits(t testing.TB, n *Node) {
	t.Helper()
	l := n.config.Limits
	for _, c := range []struct {
		name      string
		got, want int
	}{
		{"map-cache", n.itr.Cache.Size(), l.MapCacheEntries},
		{"pending requests", n.itr.Requester.Pending.Size(), l.PendingRequests},
		{"locators", len(n.itr.Prober.Table.ByRLOC), l.Locators},
		{"SMRs", len(n.etr.Solicitor.ByRLOC), l.SMRPeers},
		{"askers", len(n.etr.Solicitor.Askers.List()), l.SMRPeers},
		{"nonces of probes", len(n.itr.Prober.ByNonce), l.Locators * reach.ProbeNonces},
		{"nonces of pending requests", len(n.itr.Requester.Pending.ByNonce), l.PendingRequests * settings.MapRequestTries},
		{"registrations", n.mapServer.Registrations.Index.Size, l.Registrations},
		{"Map-Notifies", len(n.mapServer.Notifier.ByTarget), l.Notifications},
		{"nonces of Map-Notifies", len(n.mapServer.Notifier.ByNonce), l.Notifications},
		{"reply buckets", len(n.host.ReplyLimit.Current) + len(n.host.ReplyLimit.Previous), l.RateTable},
		{"probe buckets", len(n.host.ProbeLimit.Current) + len(n.host.ProbeLimit.Previous), l.RateTable},
		{"notify buckets", len(n.host.Notifies.Current) + len(n.host.Notifies.Previous), l.RateTable},
		{"SMR buckets", len(n.itr.Requester.Smrs.Current) + len(n.itr.Requester.Smrs.Previous), l.RateTable},
	} {
		if c.got > c.want {
			t.Fatalf("%s: %d, limit %d", c.name, c.got, c.want)
		}
	}
	for _, s := range n.mapServer.Registrations.Sites.Known {
		if len(s.Nonces) > l.ReplayEntriesPerSite || s.Registrations > l.RegistrationsPerSite || s.Registrations < 0 {
			t.Fatalf("site %s: %d nonces, %d registrations", s.Config.Name, len(s.Nonces), s.Registrations)
		}
	}
	known := &n.mapServer.Registrations
	for i := range known.Rows.Len() {
		if row := known.Rows.At(uint32(i)); !row.Prefix.IsZero() && known.Count(row) > l.RegistrantsPerPrefix {
			t.Fatalf("%d registrants", known.Count(row))
		}
	}
}

// drained polls everything and writes it down.
func drained(n *Node) string {
	var b bytes.Buffer
	for {
		e, ok := n.Poll()
		if !ok {
			return b.String()
		}
		fmt.Fprintf(&b, "%T %+v\n", e, e)
	}
}

// hostileMessage makes a message that is nearly always well-formed.
func hostileMessage(r *rand.Rand) []byte {
	p := lisp.MustParsePrefix(fmt.Sprintf("10.%d.%d.0/24", r.IntN(4), r.IntN(256)))
	mapping := lisp.Mapping{Prefix: p, TTLMinutes: uint32(r.IntN(3)), Locators: locators(fmt.Sprintf("192.0.2.%d", 1+r.IntN(200)))}
	request := wire.MapRequest{
		SMR: r.IntN(4) == 0, Probe: r.IntN(8) == 0, Nonce: r.Uint64(), Records: []wire.RequestRecord{{EID: wire.AddressOf(p), MaskLen: 24}},
		ITRRLOCs: []wire.Address{wire.IPv4{198, 51, 100, byte(r.IntN(256))}},
	}
	var b []byte
	switch r.IntN(4) {
	case 0:
		b, _ = request.AppendTo(nil)
	case 1:
		inner, _ := request.AppendTo(nil)
		source := netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 51, 100, 1}), 4342)
		b, _ = wire.AppendECM(nil, source, source, inner)
	case 2:
		m := wire.MapRegister{WantMapNotify: true, XTRIDPresent: true, XTRID: [16]byte{byte(r.IntN(9))}, Nonce: r.Uint64N(1 << 20), KeyID: 1, AlgorithmID: 3,
			MergeRequest: r.IntN(2) == 0, Authentication: make([]byte, 16), Records: []wire.Record{wire.RecordOf(mapping)}}
		b, _ = wire.AppendSigned(nil, &m, secret(1).Secret)
	default:
		m := wire.MapReply{Nonce: r.Uint64(), Records: []wire.Record{wire.RecordOf(mapping)}}
		b, _ = m.AppendTo(nil)
	}
	if r.IntN(10) == 0 && len(b) > 0 {
		b[r.IntN(len(b))] ^= 1 << r.IntN(8)
	}
	return b
}

// hostileRun is one run of a flood over virtual minutes: all that came of it.
func hostileRun(t testing.TB, seed uint64) string {
	n := fullNode(t)
	r := rand.New(rand.NewPCG(seed, 0))
	var log bytes.Buffer
	now := epoch
	local := netip.MustParseAddrPort("192.0.2.1:4342")
	for range 3000 {
		now = now.Add(time.Duration(r.IntN(200)) * time.Millisecond)
		from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 51, 100, byte(r.IntN(256))}), uint16(r.IntN(3))+4341)
		n.HandlePacket(now, local, from, hostileMessage(r))
		n.HandleMiss(now, Miss{Source: eid("10.1.0.1"), Destination: lisp.EIDFromAddr(netip.AddrFrom4([4]byte{10, byte(r.IntN(4)), byte(r.IntN(256)), 1}))})
		if at, ok := n.NextDeadline(); ok && !at.After(now) {
			n.HandleTimeout(now)
		}
		checkLimits(t, n)
		log.WriteString(drained(n))
	}
	for name, value := range n.Counters() {
		fmt.Fprintln(&log, name, value)
	}
	for _, p := range n.pendings() {
		fmt.Fprintf(&log, "%+v\n", p)
	}
	return log.String()
}

func TestFloodsAreBoundedAndRunsAreDeterministic(t *testing.T) {
	if first, second := hostileRun(t, 1), hostileRun(t, 1); first != second {
		t.Error("two runs of the same inputs differ")
	}
	hostileRun(t, 2)
}

func TestTimeoutsComeInBatches(t *testing.T) {
	_, x := loneITR(t, Limits{})
	for i := range 2000 {
		x.itr.Cache.Install(mapcache.Entry{Mapping: positive(fmt.Sprintf("10.%d.%d.0/24", i/256, i%256), 1), ExpiresAt: x.host.After(time.Minute)})
	}
	now := epoch.Add(2 * time.Minute)
	iterations := 0
	for at, ok := x.NextDeadline(); ok && !at.After(now); at, ok = x.NextDeadline() {
		before := x.itr.Cache.Size()
		x.HandleTimeout(now)
		if done := before - x.itr.Cache.Size(); done > settings.TimeoutBatch {
			t.Fatalf("%d deadlines in one iteration", done)
		}
		iterations++
	}
	if iterations < 2 || x.itr.Cache.Size() != 0 {
		t.Errorf("%d iterations, %d entries left", iterations, x.itr.Cache.Size())
	}
}

func TestTimeThatGoesBack(t *testing.T) {
	n := fullNode(t)
	n.HandleMiss(epoch, Miss{Destination: eid("172.16.0.1")})
	n.HandleTimeout(epoch.Add(-time.Hour))
	n.HandleTimeout(epoch.Add(time.Second))
	drained(n)
	checkLimits(t, n)
}

// Shows RFC 9301 s.5 (1).
func TestPortRule(t *testing.T) {
	n := fullNode(t)
	n.HandlePacket(epoch, netip.MustParseAddrPort("192.0.2.1:5000"), netip.MustParseAddrPort("192.0.2.9:5001"), []byte{0x10})
	if got := n.host.Counters[counter.RefusedPort]; got != 1 {
		t.Errorf("refused %d", got)
	}
}

// FuzzHandlePacket gives any bytes to a Node with all roles, after a miss and with
// the nonce of its Map-Request where the bytes are a Map-Reply.
func FuzzHandlePacket(f *testing.F) {
	r := rand.New(rand.NewPCG(7, 7))
	for range 40 {
		f.Add(hostileMessage(r), false)
	}
	f.Add(hostileMessage(r), true)
	f.Fuzz(func(t *testing.T, b []byte, resign bool) {
		n := fullNode(t)
		n.HandleMiss(epoch, Miss{Source: eid("10.1.0.1"), Destination: eid("10.3.0.1")})
		for nonce := range n.itr.Requester.Pending.ByNonce {
			b = withNonce(b, nonce)
		}
		b = bytes.Clone(b)
		if resign { // get behind the authentication
			_ = wire.Sign(b, secret(1).Secret)
		}
		now := epoch.Add(time.Second)
		for range 3 {
			n.HandlePacket(now, netip.MustParseAddrPort("192.0.2.1:4342"), netip.MustParseAddrPort("198.51.100.7:4342"), b)
			drained(n)
			checkLimits(t, n)
			if at, ok := n.NextDeadline(); ok && at.After(now) {
				now = at
			}
			n.HandleTimeout(now)
		}
	})
}

func withNonce(b []byte, nonce uint64) []byte {
	if len(b) < 12 || wire.MessageType(b[0]>>4) != wire.TypeMapReply {
		return b
	}
	b = bytes.Clone(b)
	for i := range 8 {
		b[4+i] = byte(nonce >> (56 - 8*i))
	}
	return b
}

// What happens with every message leaves room for the events that an operator has to know.
func TestBusySystemTellsOfChanges(t *testing.T) {
	h := system.New(epoch, testRandom(1))
	h.Configure(Config{Limits: DefaultLimits()}.WithDefaults())
	h.Advance(epoch)
	for range 10_000 {
		h.Notice(Notice{Kind: NoticeMapReplySent})
	}
	before := len(h.Effects)
	h.Notice(Notice{Kind: NoticeLocatorDown})
	h.NoticeRefusal(Notice{Kind: NoticeMessageRefused})
	if got := len(h.Effects) - before; got != 2 {
		t.Errorf("%d of 2 events were told", got)
	}
	for range 10_000 {
		h.Notice(Notice{Kind: NoticeLocatorDown})
		h.NoticeRefusal(Notice{Kind: NoticeMessageRefused})
	}
	if got, most := len(h.Effects)-before, settings.ChangeNotices().Burst+settings.RefusalNotices().Burst; got != most {
		t.Errorf("%d events at one moment, want %d", got, most)
	}
}
