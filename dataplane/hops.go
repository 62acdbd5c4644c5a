// SPDX-License-Identifier: Apache-2.0

package dataplane

// Locators that are paths of several hops (RFC 8060 s.4.6), as engines take them.

import (
	"fmt"

	"loci/lisp"
)

// CheckPaths says which locator of a set no packet can be sent to for its hops; ErrInvalid.
func CheckPaths(set lisp.LocatorSet) error {
	for i := range set {
		if err := CheckPath(&set[i]); err != nil {
			return err
		}
	}
	return nil
}

// CheckPath says why no packet can take the path of a locator, or go to the hop that it names; ErrInvalid. Of a plain
// RLOC it says nothing.
func CheckPath(l *lisp.Locator) error {
	path := l.Path()
	if !path.IsPlain() {
		if err := path.Valid(); err != nil {
			return fmt.Errorf("locator %s: %w: %w", path, err, ErrInvalid)
		}
	}
	if int(l.Next) >= path.Len() {
		return fmt.Errorf("locator %s: packets go to hop %d, counted from 0: %w", path, l.Next, ErrInvalid)
	}
	return nil
}

// RefuseSourcePorts is for engines that cannot send from a locator's source port; ErrUnsupported.
func RefuseSourcePorts(set lisp.LocatorSet) error {
	for i := range set {
		if set[i].SourcePort != 0 {
			return fmt.Errorf("locator %s: packets leave from port %d: %w", set[i].Path(), set[i].SourcePort, ErrUnsupported)
		}
	}
	return nil
}

// IsLocal reports whether a locator is this system: its RLOC, or one of the hops of a path, is one of the own RLOCs.
func IsLocal(l *lisp.Locator, own []lisp.RLOC) bool {
	path := l.Path()
	for _, r := range own {
		if path.Index(r) >= 0 {
			return true
		}
	}
	return false
}

// HasLocal reports whether a set has a locator of this system.
func HasLocal(set lisp.LocatorSet, own []lisp.RLOC) bool {
	for i := range set {
		if IsLocal(&set[i], own) {
			return true
		}
	}
	return false
}
