// SPDX-License-Identifier: Apache-2.0

package wire

// LCAF type 15, Key/Value Address Pair (RFC 8060 s.5.5, experimental):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|           AFI = 16387         |     Rsvd1     |     Flags     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Type = 15   |     Rsvd2     |            Length             |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|              AFI = x          |       Address as Key ...      |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|              AFI = y          |       Address as Value ...    |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+

// KeyValueLCAF attaches an attribute to an address.
type KeyValueLCAF struct {
	Key, Value Address
}

// LCAFType is LCAFKeyValue.
func (KeyValueLCAF) LCAFType() LCAFType { return LCAFKeyValue }

// AFI is AFILCAF.
func (KeyValueLCAF) AFI() AFI { return AFILCAF }

// String is "key=value".
func (a KeyValueLCAF) String() string { return show(a.Key) + "=" + show(a.Value) }

func parseKeyValue(r *reader) Address {
	return KeyValueLCAF{Key: r.address("Address as Key"), Value: r.address("Address as Value")}
}

func (a KeyValueLCAF) appendTo(b []byte) ([]byte, error) {
	b, at := beginLCAF(b, LCAFKeyValue, 0)
	b, err := appendAddress(b, a.Key)
	if err != nil {
		return b, err
	}
	return endLCAFWith(b, at, a.Value)
}
