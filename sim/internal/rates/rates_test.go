// SPDX-License-Identifier: Apache-2.0

package rates

import (
	"net/netip"
	"testing"
)

// The rates of RLOCs are kept apart: RLOCs of several subnets that differ in the same bits have keys of their own.
func TestAddressesHaveKeysOfTheirOwn(t *testing.T) {
	of := map[uint64]netip.Addr{}
	for subnet := range 64 {
		for host := range 64 {
			a := netip.AddrFrom16([16]byte{0: 0xfd, 7: byte(subnet), 15: byte(host)})
			if other, taken := of[AddrKey(a)]; taken {
				t.Fatalf("%s has the key of %s", a, other)
			}
			of[AddrKey(a)] = a
		}
	}
}
