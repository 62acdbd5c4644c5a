// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"testing"

	"loci/lisp"
)

// TestAppendMapReply wants what the records of the mappings give, errors included.
func TestAppendMapReply(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	prefixes := []string{"10.1.0.0/16", "10.1.2.3/32", "0.0.0.0/0", "2001:db8::/32", "2001:db8::1/128", "[7]10.1.0.0/16", "[7]2001:db8::/48", `"name"/32`, "[9]02:00:00:00:00:01/48"}
	rlocs := []string{"192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2"}
	for range 5000 {
		long := MapReply{Nonce: random.Uint64(), Probe: random.IntN(2) == 0, EchoNonce: random.IntN(2) == 0}
		var mappings []lisp.Mapping
		for range random.IntN(4) {
			m := lisp.Mapping{
				Prefix: lisp.MustParsePrefix(prefixes[random.IntN(len(prefixes))]), TTLMinutes: random.Uint32(), Action: lisp.Action(random.IntN(9)),
				Authoritative: random.IntN(2) == 0, Version: uint16(random.IntN(4100)),
			}
			for range random.IntN(4) {
				l := lisp.Locator{
					Priority: uint8(random.IntN(256)), Weight: uint8(random.IntN(256)), MulticastPriority: uint8(random.IntN(256)), MulticastWeight: 1,
					Local: random.IntN(2) == 0, Probed: random.IntN(2) == 0, Reachable: random.IntN(2) == 0,
				}
				if random.IntN(10) > 0 {
					l.RLOC = lisp.RLOCFromAddr(netip.MustParseAddr(rlocs[random.IntN(len(rlocs))]))
				}
				m.Locators = append(m.Locators, l)
			}
			mappings = append(mappings, m)
			long.Records = append(long.Records, RecordOf(m))
		}
		want, wantErr := long.AppendTo([]byte("before"))
		got, err := AppendMapReply([]byte("before"), &long, mappings)
		if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() || !bytes.Equal(got, want) {
			t.Fatalf("%+v:\n%x, %v\nwant\n%x, %v", mappings, got, err, want, wantErr)
		}
	}
	if _, err := AppendMapReply(nil, &MapReply{}, make([]lisp.Mapping, MaxRecords+1)); err == nil {
		t.Error("too many records fit")
	}
}
