// SPDX-License-Identifier: Apache-2.0

package mapcmd

// Address families as the commands name them: -inet and -inet6.

import (
	"fmt"
	"strings"

	"loci/lisp"
)

// family is what a table is divided by.
type family uint8

const (
	familyAny family = iota
	familyIPv4
	familyIPv6
	familyMAC
	familyName
)

func (f family) String() string { return [...]string{"any", "inet", "inet6", "mac", "name"}[f] }

// title is netstat's heading of a family.
func (f family) title() string {
	return [...]string{"", "Internet", "Internet6", "MAC addresses", "Names"}[f]
}

// familyOf guesses the family of a word that stands for an address.
func familyOf(word string) family {
	if _, rest, ok := strings.Cut(word, "]"); ok {
		word = rest
	}
	word, _, _ = strings.Cut(word, ",") // the first hop of a path
	word, _, _ = strings.Cut(word, "+")
	if rloc, err := lisp.ParseRLOCPort(word); err == nil {
		return familyOfRLOC(rloc)
	}
	if strings.Contains(word, ":") {
		return familyIPv6
	}
	return familyIPv4
}

func familyOfRLOC(r lisp.RLOC) family {
	if r.Is4() {
		return familyIPv4
	}
	return familyIPv6
}

func familyOfKind(kind lisp.EIDKind) family {
	switch kind {
	case lisp.EIDIPv4:
		return familyIPv4
	case lisp.EIDIPv6:
		return familyIPv6
	case lisp.EIDMAC:
		return familyMAC
	}
	return familyName
}

// check refuses an address of another family than -inet or -inet6 said.
func (f family) check(word string, is family) error {
	switch {
	case f == is:
		return nil
	case is == familyIPv4 || is == familyIPv6:
		return fmt.Errorf("-%s %s: that is an address of -%s", f, word, is)
	}
	return fmt.Errorf("-%s %s: want an IPv4 or IPv6 address", f, word)
}

// covers reports whether an EID-Prefix is of a family.
func (f family) covers(prefix lisp.Prefix) bool {
	return f == familyAny || f == familyOfKind(prefix.Kind())
}
