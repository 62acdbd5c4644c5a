// SPDX-License-Identifier: Apache-2.0

// Package multipath has the configuration of what becomes of subflows of Multipath TCP (RFC 8684), and of what tells the
// paths of a mapping apart (RFC 8060 s.4.6). It binds none.
package multipath

// Binding says who gives subflows paths of their own.
type Binding string

// The bindings.
const (
	Stateless Binding = "stateless" // the ITR alone
	Stateful  Binding = "stateful"  // the ETR of the destination, which the ITR asks
	Off       Binding = "off"
)

// TCP is the section `itr.mptcp`.
type TCP struct {
	Binding Binding `key:"binding" oneof:"stateless,stateful,off"`
}

// IsBound reports whether subflows get paths of their own.
func (t TCP) IsBound() bool { return t.Binding == Stateless || t.IsAskedFor() }

// IsAskedFor reports whether the ETR of the destination chooses them.
func (t TCP) IsAskedFor() bool { return t.Binding == Stateful }
