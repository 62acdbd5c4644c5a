// SPDX-License-Identifier: Apache-2.0

package underlay

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// FuzzControl: control messages, which the kernel makes of outer headers and ICMP errors that anybody can send, are read to their
// end whatever they are.
func FuzzControl(f *testing.F) {
	for _, source := range []string{"192.0.2.1", "2001:db8::1"} {
		for _, segment := range []int{0, 1400} {
			f.Add(appendMarks(make([]byte, 0, controlOctets), &Outer{Source: netip.MustParseAddr(source), Marks: Marks{TTL: 64, Class: 3}, Segment: segment}))
		}
	}
	f.Add(appendControl(make([]byte, 0, controlOctets), unix.IPPROTO_UDP, unix.UDP_GRO, []byte{0xff, 0xff, 0xff, 0xff}))
	f.Fuzz(func(t *testing.T, control []byte) {
		var d Train
		readMarks(&d, control)
		if d.Segment < 0 || d.Segment > 0xffff {
			t.Errorf("segments of %d octets", d.Segment)
		}
		if e, ok := readError(control); ok && e.Unreachable() && e.Type == 0 {
			t.Errorf("%+v", e)
		}
		for rest := control; ; {
			_, _, data, next, ok := nextControl(rest)
			if !ok {
				return
			}
			if len(data) > len(rest) || len(next) >= len(rest) {
				t.Fatalf("%d octets of data, %d behind it, of %d", len(data), len(next), len(rest))
			}
			rest = next
		}
	})
}
