// SPDX-License-Identifier: Apache-2.0

// Addresses and waits that several tests use.

package kerneltest

import (
	"net/netip"
	"testing"
	"time"

	"loci/lisp"
)

// Patience bounds every wait for something that must come, on a busy machine too.
const Patience = time.Minute

// RLOC4 is the IPv4 address that a site's router has in the core.
func RLOC4(site int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(site + 1)}) }

// RLOC6 is the IPv6 address that a site's router has in the core.
func RLOC6(site int) netip.Addr {
	return netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0xff, 15: byte(site + 1)})
}

// Locators is a set of locators that are all alike.
func Locators(addresses ...netip.Addr) lisp.LocatorSet {
	var all []lisp.Locator
	for _, a := range addresses {
		all = append(all, lisp.Locator{RLOC: lisp.RLOCFromAddr(a), Priority: 1, Weight: 100, Reachable: true})
	}
	set, err := lisp.NewLocatorSet(all...)
	if err != nil {
		panic(err)
	}
	return set
}

// Eventually waits until a condition holds.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Patience); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still not: %s", what)
		}
	}
}
