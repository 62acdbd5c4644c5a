// SPDX-License-Identifier: Apache-2.0

package wire

// LCAF type 1, AFI List (RFC 8060 s.4.10):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|           AFI = 16387         |     Rsvd1     |     Flags     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Type = 1    |     Rsvd2     |            Length             |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|              AFI = x          |         Address  ...          |   repeated
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+

import (
	"fmt"
	"strings"

	"loci/lisp"
)

// AFIListLCAF holds several addresses of one thing. Their order says nothing.
type AFIListLCAF struct {
	Addresses []Address // at most MaxListEntries
}

// LCAFType is LCAFAFIList.
func (*AFIListLCAF) LCAFType() LCAFType { return LCAFAFIList }

// AFI is AFILCAF.
func (*AFIListLCAF) AFI() AFI { return AFILCAF }

// String lists the addresses in braces.
func (a *AFIListLCAF) String() string {
	texts := make([]string, len(a.Addresses))
	for i, entry := range a.Addresses {
		texts[i] = show(entry)
	}
	return "{" + strings.Join(texts, ", ") + "}"
}

// HostNameOf is the name beside an IP address in an AFI-List: that of the host which has the address.
func HostNameOf(a Address) (name DistinguishedName, ok bool) {
	list, is := a.(*AFIListLCAF)
	if !is {
		return "", false
	}
	for _, entry := range list.Addresses {
		if name, ok = entry.(DistinguishedName); ok {
			return name, name != ""
		}
	}
	return "", false
}

// NamedRLOC is an IP address with the name of its host.
func NamedRLOC(r lisp.RLOC, name DistinguishedName) Address {
	return &AFIListLCAF{Addresses: []Address{RLOCAddress(r), name}}
}

func parseAFIList(r *reader) Address {
	return &AFIListLCAF{Addresses: parseAddresses(r, "AFI-List entry")}
}

// parseAddresses reads addresses to the end of the window.
func parseAddresses(r *reader, field string) []Address {
	var list []Address
	for r.remaining() > 0 && !r.failed() {
		if len(list) == MaxListEntries {
			r.fail(field, ReasonTooMany, "")
			return nil
		}
		list = append(list, r.address(field))
	}
	return list
}

func (a *AFIListLCAF) appendTo(b []byte) ([]byte, error) {
	b, at := beginLCAF(b, LCAFAFIList, 0)
	b, err := appendAddresses(b, a.Addresses)
	if err != nil {
		return b, err
	}
	return endLCAF(b, at)
}

func appendAddresses(b []byte, list []Address) ([]byte, error) {
	if len(list) > MaxListEntries {
		return b, fmt.Errorf("list of %d addresses: want at most %d", len(list), MaxListEntries)
	}
	var err error
	for _, a := range list {
		if b, err = appendAddress(b, a); err != nil {
			return b, err
		}
	}
	return b, nil
}
