// SPDX-License-Identifier: Apache-2.0

package lisp

// Instance-ID: the number that keeps overlapping EID spaces apart
// (RFC 9300 s.4.3, s.5.5; RFC 8060 s.4.1).

import (
	"fmt"
	"strconv"
)

// InstanceID keeps overlapping EID spaces apart. The control plane carries 32
// bits (RFC 8060 s.4.1), the data header 24 (RFC 9300 s.5.1): only values up to
// MaxInstanceID can be forwarded.
type InstanceID uint32

// MaxInstanceID is the largest Instance-ID the 24-bit data header field holds.
// 0xFFFFFF itself is reserved for control messages in the data plane.
const MaxInstanceID InstanceID = 0xFFFFFE

// ControlInstanceID marks control messages carried by the data plane
// (draft-ermagan-lisp-nat-traversal s.4.5); it is no tenant's.
const ControlInstanceID InstanceID = 0xFFFFFF

// ParseInstanceID reads a decimal Instance-ID between 0 and MaxInstanceID.
func ParseInstanceID(s string) (InstanceID, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || InstanceID(n) > MaxInstanceID {
		return 0, fmt.Errorf("Instance-ID %q: want a number from 0 to %d", s, MaxInstanceID)
	}
	return InstanceID(n), nil
}

// String is the decimal form.
func (i InstanceID) String() string { return strconv.FormatUint(uint64(i), 10) }
