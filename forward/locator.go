// SPDX-License-Identifier: Apache-2.0

package forward

// Which locator a flow takes (RFC 9300 s.12, RFC 9301 s.5.4): of the usable ones
// those of the best rank, of these those of the lowest priority, by their weights. The
// choice is compiled into a vector of buckets, so that a packet costs one array access.
// This file never looks at a packet.

import "loci/lisp"

// BucketCount is the resolution of weights: a power of two, as large as the
// programs' vector (LISP_BUCKETS).
const BucketCount = 128

// NoBucket stands in every bucket when no locator is usable.
const NoBucket = 0xFF

// BucketVector holds, for each bucket of the flow hash, an index into the
// locator-set.
type BucketVector [BucketCount]uint8

// Rank tells what is known of a locator beyond the mapping: whether packets may be sent
// to it at all, and before which others. A lower rank is better.
type Rank func(*lisp.Locator) (rank int, usable bool)

// Buckets shares the buckets out among the usable locators of the best rank, and among
// these those of the lowest priority, each as many as its weight demands with an error
// below one bucket. When all their weights are 0 they get equal shares (RFC 9301 s.5.4
// leaves it to the sender); beside others a weight of 0 gets none. A nil rank means that
// all are usable and rank the same.
//
// A locator that leaves the best rank gives its buckets to the others by weight and gets
// the same ones back when it returns; no other flow moves. The result depends on the
// arguments alone, not on what happened before.
func Buckets(set lisp.LocatorSet, rank Rank) BucketVector {
	s := sharing{set: set[:min(len(set), lisp.MaxLocators)]}
	s.usable = bestRank(s.set, rank)
	for i := range s.vector {
		s.vector[i] = NoBucket
	}
	if s.usable == 0 {
		return s.vector
	}
	priority := lisp.PriorityUnused
	for i, l := range s.set {
		if s.usable.Has(i) {
			priority = min(priority, int(l.Priority))
		}
	}
	candidates := LocatorBits(0)
	for i, l := range s.set {
		if int(l.Priority) == priority {
			candidates |= 1 << i
		}
	}
	var all [BucketCount]uint8
	for i := range all {
		all[i] = uint8(i)
	}
	s.share(all[:], candidates, rootPath)
	return s.vector
}

// bestRank are the usable locators that no other usable one outranks.
func bestRank(set lisp.LocatorSet, rank Rank) (usable LocatorBits) {
	best := 0
	for i := range set {
		if !set[i].Usable() {
			continue
		}
		its, may := 0, true
		if rank != nil {
			its, may = rank(&set[i])
		}
		switch {
		case !may:
		case usable == 0 || its < best:
			best, usable = its, 1<<i
		case its == best:
			usable |= 1 << i
		}
	}
	return usable
}

type sharing struct {
	set    lisp.LocatorSet
	usable LocatorBits
	vector BucketVector
}

// share gives the buckets to the candidates by weight, then shares those of each
// candidate that is not usable among the remaining ones. So every bucket has its
// own fixed order of preference, and only buckets of a lost locator move.
func (s *sharing) share(buckets []uint8, candidates LocatorBits, path uint32) {
	if len(buckets) == 0 || candidates&s.usable == 0 {
		return
	}
	counts := s.apportion(len(buckets), candidates, path)
	for i, count := range counts[:len(s.set)] {
		part := buckets[:count]
		buckets = buckets[count:]
		if !s.usable.Has(i) {
			s.share(part, candidates&^(1<<i), hashStep(path, uint32(i)))
			continue
		}
		for _, b := range part {
			s.vector[b] = uint8(i)
		}
	}
}

// rootPath begins the paths of lost locators. Its highest bit alone is set, so that
// the first apportionment rounds to the nearest.
const rootPath = 1 << 31

// apportion says how many of a number of buckets each candidate gets: its exact
// share, rounded up or down. Where the rounding of their running total begins
// depends on the path of lost locators, so that what many of them leave, a few
// buckets each, does not always go to the same one.
func (s *sharing) apportion(buckets int, candidates LocatorBits, path uint32) (counts [lisp.MaxLocators]int) {
	var weights [lisp.MaxLocators]int
	total := s.weigh(&weights, candidates)
	sum, given := 0, 0
	for i := range s.set {
		sum += weights[i]
		// floor(buckets * sum / total + path / 2^32), in whole numbers
		upTo := int((uint64(buckets*sum)<<32/uint64(total) + uint64(path)) >> 32)
		counts[i] = upTo - given
		given = upTo
	}
	return counts
}

// weigh fills in the candidates' weights, 1 each when all are 0, and returns
// their sum.
func (s *sharing) weigh(weights *[lisp.MaxLocators]int, candidates LocatorBits) (total int) {
	for i, l := range s.set {
		if candidates.Has(i) {
			weights[i] = int(l.Weight)
			total += weights[i]
		}
	}
	if total > 0 {
		return total
	}
	for i := range s.set {
		if candidates.Has(i) {
			weights[i] = 1
			total++
		}
	}
	return total
}

// NeedsLookup reports whether the hop that a locator's packets go to is an EID (RFC 8060 s.4.6, L): without a second layer no
// packet gets there.
func NeedsLookup(l *lisp.Locator) bool {
	return l.Bits.Has(min(int(l.Next), l.Behind.Len()), lisp.HopLookup)
}

// SelectLocator returns the locator that a flow takes; false when none is usable.
func SelectLocator(set lisp.LocatorSet, buckets *BucketVector, hash uint32) (lisp.Locator, bool) {
	i := int(buckets[BucketOf(hash)])
	if i >= len(set) {
		return lisp.Locator{}, false
	}
	return set[i], true
}
