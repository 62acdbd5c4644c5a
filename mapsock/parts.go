// SPDX-License-Identifier: Apache-2.0

package mapsock

// Settings that are too long for a message, such as thousands of prefixes in lists: they
// go in several messages, all but the last with the flag MORE and each with some of the
// attributes. A long list stands in several attributes, each of which continues the one
// before, be it of an earlier message. The last one applies them together.

import (
	"maps"

	"golang.org/x/sys/unix"

	"loci/dataplane"
)

// AppendParts writes settings behind b, in as many messages as they need. What fits into
// one is written as by Append.
func (m *Message) AppendParts(b []byte) ([]byte, error) {
	if err := fits(m); err != nil {
		return b, err
	}
	for rest := appendAttributes(m, nil); ; {
		octets := attributesTogether(rest)
		header := *m
		setFlag(&header, FlagMore, octets < len(rest))
		start := len(b)
		b = append(appendHeader(&header, b), rest[:octets]...)
		order.PutUint16(b[start+offsetLength:], uint16(len(b)-start))
		order.PutUint16(b[start+offsetAttributes:], HeaderSize)
		if rest = rest[octets:]; len(rest) == 0 {
			return b, nil
		}
	}
}

// AppendOperation writes what SetOperation made of m.
func (m *Message) AppendOperation(b []byte) ([]byte, error) {
	if m.Type == TypeSetSettings {
		return m.AppendParts(b)
	}
	return m.Append(b)
}

// follow adds what the next message of an answer says, or is that message when it is the
// first.
func (m *Message) follow(next *Message) {
	copied := clone(next)
	if m.Flags&FlagMore == 0 {
		*m = copied
		return
	}
	if err := m.Join(&copied); err != nil {
		copied.SetError(err)
	}
	m.Flags, m.Errno, m.ErrorText = copied.Flags, copied.Errno, copied.ErrorText
}

// messagesTogether is how many octets of messages, which it does not cut, fit into a
// datagram.
func messagesTogether(b []byte) (octets int) {
	for octets < len(b) {
		next := octets + int(order.Uint16(b[octets:]))
		if next > MaxDatagram {
			break
		}
		octets = next
	}
	return octets
}

// attributesTogether is how many octets of some attributes, which it does not cut, fit
// into a message.
func attributesTogether(attributes []byte) (octets int) {
	for octets < len(attributes) {
		value := int(order.Uint16(attributes[octets+2:]))
		next := octets + attributeHeaderSize + (value+Alignment-1)/Alignment*Alignment
		if next > MaxMessage-HeaderSize {
			break
		}
		octets = next
	}
	return octets
}

// Join adds what a later part says of the same settings.
func (m *Message) Join(part *Message) error {
	lists := part.Lists
	if part.continues {
		if len(m.Lists) == 0 || !sameList(&m.Lists[len(m.Lists)-1], &lists[0]) {
			return Refusef(unix.EINVAL, "a list continues none that came before")
		}
		last := &m.Lists[len(m.Lists)-1]
		last.Allow, last.Deny = append(last.Allow, lists[0].Allow...), append(last.Deny, lists[0].Deny...)
		lists = lists[1:]
	}
	m.Lists = append(m.Lists, lists...)
	if err := joinRoles(m, part); err != nil {
		return Refusef(unix.EINVAL, "%s", err)
	}
	m.Watched = append(m.Watched, part.Watched...)
	m.LocalRLOCs = append(m.LocalRLOCs, part.LocalRLOCs...)
	m.RTRs = append(m.RTRs, part.RTRs...)
	m.Encapsulations = append(m.Encapsulations, part.Encapsulations...)
	if m.MissPolicies == nil {
		m.MissPolicies = part.MissPolicies
	} else {
		maps.Copy(m.MissPolicies, part.MissPolicies)
	}
	joinOnce(m, part)
	m.has |= part.has
	return nil
}

// joinOnce takes over what stands in one part alone.
func joinOnce(m *Message, part *Message) {
	if part.Has(AttributeMissPolicy) {
		m.MissPolicy = part.MissPolicy
	}
	if part.Has(AttributeMissForm) {
		m.MissForm = part.MissForm
	}
	if part.Has(AttributeWaitBounds) {
		m.Wait = part.Wait
	}
	if part.Has(AttributeHeader) {
		m.Header = part.Header
	}
	if part.Has(AttributeRecursionDepth) {
		m.RecursionDepth = part.RecursionDepth
	}
	if part.Has(AttributeSibling) {
		m.Sibling = part.Sibling
	}
	if part.Has(AttributeMarkNative) {
		m.MarkNative = part.MarkNative
	}
	if part.Has(AttributeSubflows) {
		m.Subflows = part.Subflows
	}
	if part.Has(AttributePathIdentification) {
		m.PathIdentification = part.PathIdentification
	}
}

// sameList reports whether two lists are about the same addresses.
func sameList(a, b *dataplane.AccessList) bool {
	return a.Packets == b.Packets && a.Address == b.Address && a.Instance == b.Instance
}
