// SPDX-License-Identifier: Apache-2.0

package lisp_test

import (
	"net/netip"
	"testing"

	"loci/lisp"
)

func flowOf(source, destination string, instance lisp.InstanceID) lisp.Flow {
	from, to := netip.MustParseAddrPort(source), netip.MustParseAddrPort(destination)
	return lisp.Flow{
		Instance: instance, Source: lisp.EIDFromAddr(from.Addr()), Destination: lisp.EIDFromAddr(to.Addr()),
		Protocol: 6, SourcePort: from.Port(), DestinationPort: to.Port(),
	}
}

func TestFlow(t *testing.T) {
	f := flowOf("10.1.0.1:40000", "10.2.0.1:443", 0)
	if got := f.String(); got != "tcp 10.1.0.1:40000 > 10.2.0.1:443" {
		t.Error(got)
	}
	if got := flowOf("[2001:db8::1]:1", "[2001:db8::2]:2",
		7).Reverse().String(); got != "[7] tcp [2001:db8::2]:2 > [2001:db8::1]:1" {
		t.Error(got)
	}
	if f.Reverse().Reverse() != f {
		t.Error("twice the other direction is not the first one")
	}
	if err := f.Valid(); err != nil {
		t.Error(err)
	}
	for _, bad := range []lisp.Flow{
		{}, flowOf("10.1.0.1:1", "[2001:db8::2]:2", 0),
		flowOf("10.1.0.1:1", "10.2.0.1:2", lisp.MaxInstanceID+1),
		{Source: lisp.EIDFromMAC([6]byte{1}), Destination: lisp.EIDFromMAC([6]byte{2})},
	} {
		if bad.Valid() == nil {
			t.Errorf("%s is valid", bad)
		}
	}
}
