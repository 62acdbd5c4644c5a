// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"loci/internal/testnet"
)

// TestSocketHears echo replies, Time Exceeded and Packet Too Big, of both families, by raw sockets and by those for ping.
func TestSocketHears(t *testing.T) {
	testnet.RequireRoot(t)
	network := testnet.ForTest(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var at [3]*testnet.Namespace
	for i, name := range []string{"near", "router", "far"} {
		ns, err := network.Namespace(name)
		must(err)
		at[i] = ns
	}
	prefixes := func(texts ...string) (list []netip.Prefix) {
		for _, text := range texts {
			list = append(list, netip.MustParsePrefix(text))
		}
		return list
	}
	must(testnet.Connect(testnet.End{Namespace: at[0], Name: "a", Addresses: prefixes("10.0.1.1/24", "fd01::1/64")}, testnet.End{Namespace: at[1], Name: "a", Addresses: prefixes("10.0.1.2/24", "fd01::2/64")}))
	must(testnet.Connect(testnet.End{Namespace: at[1], Name: "b", Addresses: prefixes("10.0.2.1/24", "fd02::1/64")}, testnet.End{Namespace: at[2], Name: "b", Addresses: prefixes("10.0.2.2/24", "fd02::2/64")}))
	must(at[1].Forward())
	for i, via := range map[int][2]string{0: {"10.0.1.2", "fd01::2"}, 2: {"10.0.2.1", "fd02::1"}} {
		must(at[i].AddRoute(testnet.Route{Destination: netip.MustParsePrefix("0.0.0.0/0"), Via: netip.MustParseAddr(via[0])}))
		must(at[i].AddRoute(testnet.Route{Destination: netip.MustParsePrefix("::/0"), Via: netip.MustParseAddr(via[1])}))
	}
	must(at[1].SetMTU("b", 1400))
	must(at[0].Do(func() error { return os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte("0 0"), 0o644) }))
	for _, addresses := range [][3]string{{"10.0.1.1", "10.0.1.2", "10.0.2.2"}, {"fd01::1", "fd01::2", "fd02::2"}} {
		source, router, far := netip.MustParseAddr(addresses[0]), netip.MustParseAddr(addresses[1]), netip.MustParseAddr(addresses[2])
		for name, kind := range map[string]int{"raw": unix.SOCK_RAW, "ping": unix.SOCK_DGRAM} {
			var s *socket
			must(at[0].Do(func() (err error) { s, err = openSocketOf(source, kind); return err }))
			came := make(chan heard, 16)
			go s.listen(func(h heard) { came <- h })
			for _, c := range []struct {
				sequence    uint16
				octets, ttl int
				want        heard
			}{
				{1, 84, 64, heard{1, Far, far, 0}}, {2, 84, 1, heard{2, Far, router, 0}}, {3, 1450, 64, heard{3, TooBig, router, 1400}}, {4, 1400, 64, heard{4, Far, far, 0}}, {5, 1300, 1, heard{5, Far, router, 0}},
			} {
				must(s.send(far, c.sequence, c.octets, c.ttl))
				select {
				case h := <-came:
					if h != c.want {
						t.Errorf("%s from %s: %+v came, want %+v", name, source, h, c.want)
					}
				case <-time.After(10 * time.Second):
					t.Fatalf("%s from %s: nothing came, want %+v", name, source, c.want)
				}
			}
			if err := s.send(far, 9, 1501, 64); err == nil {
				t.Errorf("%s from %s: larger than the link, and sent", name, source)
			}
			s.close()
		}
	}
}

// TestErrorsAreParsed whatever they hold.
func TestErrorsAreParsed(t *testing.T) {
	data := make([]byte, extendedErr+28)
	for _, origin := range []byte{0, unix.SO_EE_ORIGIN_LOCAL, unix.SO_EE_ORIGIN_ICMP, unix.SO_EE_ORIGIN_ICMP6, 255} {
		data[4], data[5], data[6] = origin, typeUnreachable, codeTooBig
		binary.NativeEndian.PutUint32(data[8:], 1280)
		for n := range len(data) {
			h, ok := parseError(data[:n])
			if ok && (n < extendedErr+8 || origin != unix.SO_EE_ORIGIN_ICMP && origin != unix.SO_EE_ORIGIN_ICMP6) {
				t.Errorf("origin %d, %d octets: %+v", origin, n, h)
			}
		}
	}
	if h, ok := parseError(append([]byte{0, 0, 0, 0, unix.SO_EE_ORIGIN_ICMP, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 2, 0, 0, 0, 192, 0, 2, 1)); !ok || h.kind != Far || h.from != netip.MustParseAddr("192.0.2.1") {
		t.Errorf("%+v", h)
	}
}
