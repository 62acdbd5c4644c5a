// SPDX-License-Identifier: Apache-2.0

//go:build !nolispnat

package lispnat

// Sessions, as connection tracking has them: packets from a source of an entry, and answers to its pool.

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Attributes of connection tracking (linux/netfilter/nfnetlink_conntrack.h) beside those that package nl has.
const (
	ctStatus    = 3
	ctSourceNAT = 1 << 4 // IPS_SRC_NAT
	ctICMPID    = 4
	ctICMPv6ID  = 7
)

// sessions hands out the sessions of a family of addresses until f returns false.
func (s *Spec) sessions(family uint8, f func(Session) bool) error {
	request := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_CTNETLINK<<8|int(nl.IPCTNL_MSG_CT_GET), unix.NLM_F_DUMP)
	request.AddData(&nl.Nfgenmsg{NfgenFamily: family, Version: nl.NFNETLINK_V0})
	return request.ExecuteIter(unix.NETLINK_NETFILTER, 0, func(message []byte) bool {
		session, ok := s.parseSession(message)
		return !ok || f(session)
	})
}

// parseSession reads an entry of connection tracking; false for one that is not ours.
func (s *Spec) parseSession(message []byte) (session Session, ours bool) {
	if len(message) < nl.SizeofNfgenmsg {
		return Session{}, false
	}
	var there, back tuple
	var status uint32
	eachAttribute(message[nl.SizeofNfgenmsg:], func(kind uint16, value []byte) {
		switch kind {
		case nl.CTA_TUPLE_ORIG:
			there = parseTuple(value)
		case nl.CTA_TUPLE_REPLY:
			back = parseTuple(value)
		case ctStatus:
			status = number(value)
		case nl.CTA_TIMEOUT:
			session.Expires = time.Duration(number(value)) * time.Second
		}
	})
	if status&ctSourceNAT == 0 {
		return Session{}, false
	}
	session.Protocol = there.protocol
	session.Source, session.Destination = there.source, there.destination
	session.Translated = back.destination
	for i, e := range s.Entries {
		if e.From.Contains(session.Source.Addr()) && e.Pool.Contains(session.Translated.Addr()) {
			session.Entry = i
			return session, true
		}
	}
	return Session{}, false
}

type tuple struct {
	protocol            uint8
	source, destination netip.AddrPort
}

func parseTuple(list []byte) (t tuple) {
	var from, to netip.Addr
	var sourcePort, destinationPort uint16
	eachAttribute(list, func(kind uint16, value []byte) {
		eachAttribute(value, func(inner uint16, value []byte) {
			switch {
			case kind == nl.CTA_TUPLE_IP && (inner == nl.CTA_IP_V4_SRC || inner == nl.CTA_IP_V6_SRC):
				from, _ = netip.AddrFromSlice(value)
			case kind == nl.CTA_TUPLE_IP:
				to, _ = netip.AddrFromSlice(value)
			case inner == nl.CTA_PROTO_NUM && len(value) > 0:
				t.protocol = value[0]
			case inner == nl.CTA_PROTO_SRC_PORT || inner == ctICMPID || inner == ctICMPv6ID:
				sourcePort = uint16(number(value))
			case inner == nl.CTA_PROTO_DST_PORT:
				destinationPort = uint16(number(value))
			}
		})
	})
	if t.protocol == unix.IPPROTO_ICMP || t.protocol == unix.IPPROTO_ICMPV6 {
		destinationPort = sourcePort // the identifier, which is that of both directions
	}
	t.source, t.destination = netip.AddrPortFrom(from, sourcePort), netip.AddrPortFrom(to, destinationPort)
	return t
}

// number reads 2 or 4 octets; 0 for another length.
func number(value []byte) uint32 {
	switch len(value) {
	case 2:
		return uint32(binary.BigEndian.Uint16(value))
	case 4:
		return binary.BigEndian.Uint32(value)
	}
	return 0
}

// eachAttribute hands out the attributes of a netlink message; it ends at one whose length is wrong.
func eachAttribute(list []byte, f func(kind uint16, value []byte)) {
	for len(list) >= unix.SizeofNlAttr {
		length := int(binary.NativeEndian.Uint16(list))
		if length < unix.SizeofNlAttr || length > len(list) {
			return
		}
		kind := binary.NativeEndian.Uint16(list[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
		f(kind, list[unix.SizeofNlAttr:length])
		list = list[min(len(list), (length+unix.NLA_ALIGNTO-1)&^(unix.NLA_ALIGNTO-1)):]
	}
}
