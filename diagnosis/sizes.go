// SPDX-License-Identifier: Apache-2.0

package diagnosis

// Which sizes of packets come back.

import (
	"context"
	"errors"
	"slices"
	"time"
)

const (
	// sizeTries is how often a size is tried.
	sizeTries = 2
	// sizesTried are about how many sizes are tried at once.
	sizesTried = 16
	// leastOctets is the smallest packet that is tried: every IPv4 host takes it (RFC 791).
	leastOctets = 576
)

// try sends echo requests of these sizes at once, and returns those that came back, and the MTU of a Packet Too Big.
func (s *echoSocket) try(ctx context.Context, sizes []int, timeout time.Duration) (passes []int, tooBig int, err error) {
	var list []*echo
	for range sizeTries {
		for _, octets := range sizes {
			list = append(list, &echo{octets: octets})
		}
	}
	answered := func() bool {
		for i := range sizes {
			if !list[i].answered() && !list[len(sizes)+i].answered() {
				return false
			}
		}
		return true
	}
	if err := s.run(ctx, list, 5*time.Millisecond, timeout, answered); err != nil {
		return nil, 0, err
	}
	for _, e := range list {
		if e.unsent != nil && len(sizes) == 1 {
			return nil, 0, errors.New("this host does not send packets of that size: " + e.unsent.Error())
		}
		if e.error != nil && e.error.kind == errorTooBig {
			tooBig = e.error.mtu
		}
		if e.answered() && !slices.Contains(passes, e.octets) {
			passes = append(passes, e.octets)
		}
	}
	return passes, tooBig, nil
}

// largest finds the largest packet that comes back, most at most: rounds of sizes that are tried at once.
func (s *echoSocket) largest(ctx context.Context, most int, timeout time.Duration) (largest int, err error) {
	for low, high := leastOctets, most; ; low, high = largest, min(largest+(high-low)/sizesTried, most) {
		step := max((high-low)/sizesTried, 1)
		sizes := []int{high}
		for octets := low; octets < high; octets += step {
			sizes = append(sizes, octets)
		}
		passes, _, err := s.try(ctx, sizes, timeout)
		if err != nil || len(passes) == 0 {
			return largest, err
		}
		largest = slices.Max(passes)
		if step == 1 || largest == high {
			return largest, nil
		}
	}
}
