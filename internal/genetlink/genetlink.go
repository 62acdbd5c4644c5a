// SPDX-License-Identifier: Apache-2.0

// Package genetlink asks the kernel's generic netlink families (`ethtool`, `netdev`). The netlink library has requests and
// attributes; its header of generic netlink is not used, because it is two octets in memory and four on the wire, and what it
// reads beyond itself is another goroutine's. This package knows no family's messages.
package genetlink

import (
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// HeaderOctets is the size of the header before the attributes of each answer.
const HeaderOctets = 4

// typeMask takes the flags off an attribute's type (NLA_TYPE_MASK).
const typeMask = 0x3FFF

// Family is a family that this kernel has.
type Family struct {
	ID     uint16
	Groups map[string]uint32 // multicast groups by name
}

// Find looks a family up in the network namespace of the calling thread. A kernel without it answers ENOENT.
func Find(name string) (Family, error) {
	control := Family{ID: unix.GENL_ID_CTRL}
	answers, err := control.Request(0, unix.CTRL_CMD_GETFAMILY, 1, nl.NewRtAttr(unix.CTRL_ATTR_FAMILY_NAME, nl.ZeroTerminated(name)))
	if err != nil {
		return Family{}, fmt.Errorf("netlink family %s: %w", name, err)
	}
	found := Family{Groups: map[string]uint32{}}
	for _, answer := range answers {
		if err := EachAttribute(answer, HeaderOctets, found.take); err != nil {
			return Family{}, fmt.Errorf("netlink family %s: %w", name, err)
		}
	}
	if found.ID == 0 {
		return Family{}, fmt.Errorf("netlink family %s: an answer without its number", name)
	}
	return found, nil
}

func (f *Family) take(kind uint16, value []byte) {
	switch {
	case kind == unix.CTRL_ATTR_FAMILY_ID && len(value) == 2:
		f.ID = nl.NativeEndian().Uint16(value)
	case kind == unix.CTRL_ATTR_MCAST_GROUPS:
		_ = EachAttribute(value, 0, func(_ uint16, group []byte) { f.takeGroup(group) })
	}
}

func (f *Family) takeGroup(group []byte) {
	name, id := "", uint32(0)
	_ = EachAttribute(group, 0, func(kind uint16, value []byte) {
		switch {
		case kind == unix.CTRL_ATTR_MCAST_GRP_NAME:
			name = unix.ByteSliceToString(value)
		case kind == unix.CTRL_ATTR_MCAST_GRP_ID && len(value) == 4:
			id = nl.NativeEndian().Uint32(value)
		}
	})
	f.Groups[name] = id
}

// Request sends a command with its attributes and returns the answers, each with its generic header. Flags are NLM_F_….
func (f Family) Request(flags int, command, version uint8, attributes ...*nl.RtAttr) ([][]byte, error) {
	request := nl.NewNetlinkRequest(int(f.ID), flags)
	request.AddRawData([]byte{command, version, 0, 0})
	for _, a := range attributes {
		request.AddRawData(a.Serialize())
	}
	return request.Execute(unix.NETLINK_GENERIC, 0)
}

// EachAttribute calls take for the attributes behind a header of so many octets.
func EachAttribute(message []byte, header int, take func(kind uint16, value []byte)) error {
	if len(message) < header {
		return fmt.Errorf("netlink message of %d octets", len(message))
	}
	attributes, err := nl.ParseRouteAttr(message[header:])
	if err != nil {
		return fmt.Errorf("netlink message: %w", err)
	}
	for _, a := range attributes {
		take(a.Attr.Type&typeMask, a.Value)
	}
	return nil
}
