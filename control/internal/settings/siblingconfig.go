// SPDX-License-Identifier: Apache-2.0

package settings

// Which other xTRs a site has (RFC 9300 s.10).

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// SiblingConfig is another xTR of the site.
type SiblingConfig struct {
	Address  netip.Addr    // on a link inside the site
	Local    netip.Addr    // our own address on that link
	Interval time.Duration // between questions; 0 is 2 seconds
}

// validSiblings says what is wrong with a list of siblings.
func validSiblings(list []SiblingConfig) error {
	var errs []error
	if len(list) > MaxSiblings {
		errs = append(errs, fmt.Errorf("%d siblings: want at most %d", len(list), MaxSiblings))
	}
	seen := make(map[netip.Addr]bool)
	for _, c := range list {
		switch {
		case !c.Address.IsValid() || !c.Local.IsValid() || c.Address.Is4() != c.Local.Is4() || c.Address == c.Local:
			errs = append(errs, fmt.Errorf("sibling %s at %s: want two addresses of one family", c.Address, c.Local))
		case seen[c.Address]:
			errs = append(errs, fmt.Errorf("sibling %s stands there twice", c.Address))
		case c.Interval < 0:
			errs = append(errs, fmt.Errorf("sibling %s: interval %s is negative", c.Address, c.Interval))
		}
		seen[c.Address] = true
	}
	return errors.Join(errs...)
}

// MaxSiblings bounds the siblings of a site.
const MaxSiblings = 8
