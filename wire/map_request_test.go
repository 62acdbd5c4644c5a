// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"loci/lisp"
)

// TestAsk wants the message that is put together by hand.
func TestAsk(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	asked := []string{"10.1.0.0/16", "0.0.0.0/0", "2001:db8::/32", "2001:db8::1/128", "[7]10.1.0.0/16", "[16777214]2001:db8::/48", `"name"/32`, "[9]02:00:00:00:00:01/48"}
	sources := []string{"", "10.0.0.1", "2001:db8::9", `"me"`}
	rlocs := []string{"192.0.2.1", "2001:db8::1", "192.0.2.2"}
	for range 5000 {
		p := lisp.MustParsePrefix(asked[random.IntN(len(asked))])
		m := MapRequest{
			Nonce: random.Uint64(), Probe: random.IntN(2) == 0, SMR: random.IntN(2) == 0, SMRInvoked: random.IntN(2) == 0, LocalXTR: random.IntN(2) == 0,
			DontReply: random.IntN(2) == 0, PITR: random.IntN(2) == 0, Records: []RequestRecord{{EID: AddressOf(p), MaskLen: uint8(p.Bits())}},
		}
		var source lisp.EID
		if text := sources[random.IntN(len(sources))]; text != "" {
			source, _ = lisp.ParseEID(text)
			m.SourceEID = EIDAddress(p.Instance(), source)
		}
		var own []lisp.RLOC
		for range random.IntN(MaxITRRLOCs + 2) {
			r, _ := lisp.ParseRLOC(rlocs[random.IntN(len(rlocs))])
			own = append(own, r)
			m.ITRRLOCs = append(m.ITRRLOCs, RLOCAddress(r))
		}
		want, wantErr := m.AppendTo([]byte("before"))
		asked := MapRequest{Nonce: m.Nonce, Probe: m.Probe, SMR: m.SMR, SMRInvoked: m.SMRInvoked, LocalXTR: m.LocalXTR, DontReply: m.DontReply, PITR: m.PITR}
		asked.Ask(source, own, p)
		got, err := asked.AppendTo([]byte("before"))
		if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() || !bytes.Equal(got, want) {
			t.Fatalf("%+v:\n%x, %v\nwant\n%x, %v", m, got, err, want, wantErr)
		}
	}
}
