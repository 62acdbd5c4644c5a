// SPDX-License-Identifier: Apache-2.0

package policyroute

// Which prefixes the policy rules name as sources of packets from EIDs. Up to
// maxRuleSources EID-Prefixes of a family are named as they are. Beyond, neighbours
// share the shortest prefix that covers them, so that the kernel has few rules to go
// through for each route that it looks up. An address of this host that is not an EID
// is never in one of them.

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/daemon/hostnet"
)

// maxRuleSources is how many prefixes of a family the rules name. Addresses of this host
// that lie between EIDs may make it some more.
const maxRuleSources = 64

// coverOf returns prefixes that cover the given ones: these themselves up to the limit, or
// some limit that cover none of the addresses in keepOut, which none of the given prefixes has.
func coverOf(prefixes []netip.Prefix, limit int, keepOut []netip.Addr) []netip.Prefix {
	if len(prefixes) <= limit {
		return prefixes
	}
	sorted := slices.Clone(prefixes)
	slices.SortStableFunc(sorted, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	var covers []netip.Prefix
	from := 0
	for _, to := range append(widestGaps(sorted, limit-1), len(sorted)) {
		covers = append(covers, coversWithout(sorted[from:to], keepOut)...)
		from = to
	}
	return covers
}

// widestGaps returns where neighbours of a sorted list have the fewest leading bits in common, in
// ascending order: the indexes of the second ones.
func widestGaps(sorted []netip.Prefix, count int) []int {
	type gap struct{ at, shared int }
	gaps := make([]gap, 0, len(sorted)-1)
	for i := 1; i < len(sorted); i++ {
		gaps = append(gaps, gap{i, sharedBits(sorted[i-1], sorted[i])})
	}
	slices.SortStableFunc(gaps, func(a, b gap) int { return cmp.Or(cmp.Compare(a.shared, b.shared), cmp.Compare(a.at, b.at)) })
	at := make([]int, 0, count)
	for _, g := range gaps[:min(count, len(gaps))] {
		at = append(at, g.at)
	}
	slices.Sort(at)
	return at
}

// coversWithout covers a sorted list with one prefix, or more where an address has to be left out.
func coversWithout(sorted []netip.Prefix, keepOut []netip.Addr) []netip.Prefix {
	first, last := sorted[0], sorted[len(sorted)-1]
	whole := netip.PrefixFrom(first.Addr(), sharedBits(first, last)).Masked()
	if len(sorted) == 1 || !slices.ContainsFunc(keepOut, whole.Contains) {
		return []netip.Prefix{whole}
	}
	at := widestGaps(sorted, 1)[0]
	return append(coversWithout(sorted[:at], keepOut), coversWithout(sorted[at:], keepOut)...)
}

// sharedBits is the length of the longest prefix that covers both, which are of one family.
func sharedBits(a, b netip.Prefix) int {
	x, y := a.Addr().As16(), b.Addr().As16()
	bit := bits.LeadingZeros64(binary.BigEndian.Uint64(x[:8]) ^ binary.BigEndian.Uint64(y[:8]))
	if bit == 64 {
		bit += bits.LeadingZeros64(binary.BigEndian.Uint64(x[8:]) ^ binary.BigEndian.Uint64(y[8:]))
	}
	if a.Addr().Is4() {
		bit -= 96 // the mapped address's
	}
	return min(bit, a.Bits(), b.Bits())
}

// hostAddress is one of this host's.
type hostAddress struct {
	netip.Addr
	usable bool // as a source: no other host was found to have it
}

func hostAddresses(family int) ([]hostAddress, error) {
	found, err := hostnet.Dump(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, family) })
	if err != nil {
		return nil, fmt.Errorf("addresses of this host: %w", err)
	}
	var addresses []hostAddress
	for _, a := range found {
		if ip, ok := netip.AddrFromSlice(a.IP); ok {
			addresses = append(addresses, hostAddress{ip.Unmap(), a.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) == 0})
		}
	}
	return addresses, nil
}

// hostEID is an address of this host inside one of the EID-Prefixes, the source for packets whose
// program chose none; zero for none.
func hostEID(addresses []hostAddress, prefixes []netip.Prefix) netip.Addr {
	for _, a := range addresses {
		if a.usable && isEID(a.Addr, prefixes) {
			return a.Addr
		}
	}
	return netip.Addr{}
}

// outside are the addresses that are not EIDs.
func outside(addresses []hostAddress, prefixes []netip.Prefix) []netip.Addr {
	var others []netip.Addr
	for _, a := range addresses {
		if !isEID(a.Addr, prefixes) {
			others = append(others, a.Addr)
		}
	}
	return others
}

func isEID(a netip.Addr, prefixes []netip.Prefix) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}
