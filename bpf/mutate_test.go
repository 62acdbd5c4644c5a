// SPDX-License-Identifier: Apache-2.0

// Mutated packets: golden ones with changed fields, lengths and headers. The changes come from a seeded source of randomness,
// so that a seed repeats a run.

package bpf_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"

	"loci/internal/golden"
)

// What fields are set to, beside any octets: values at which something changes.
var (
	telltaleTTLs      = []byte{0, 1, 2, 3, 64, 255}
	telltaleProtocols = []byte{0, 1, 4, 6, 17, 41, 43, 44, 50, 51, 58, 59, 60, 132, 253}
	telltalePorts     = []uint16{0, 53, 4341, 4342, 4789, 4790, 8472, 0xC000}
	telltaleFragments = []uint16{0, 0x4000, 0x2000, 0x8000, 0x0001, 0x1FFF, 0x3FFF, 0x6000, 0x4001}
	telltaleInstances = []uint32{0, 7, 16777214, 1, 0xFFFFFF}
	telltaleClasses   = []byte{0, 1, 2, 3, 0xB8, 0xBA, 0xBB, 0xFF}
	telltale4         = addresses("10.1.0.10", "10.1.0.11", "10.1.128.10", "10.1.0.66", "10.7.0.10", "10.7.0.200", "10.2.0.10", "10.2.0.66", "10.2.0.80", "10.3.0.10",
		"10.4.0.1", "10.4.1.1", "10.4.2.1", "10.4.3.1", "10.4.4.1", "10.4.5.1", "10.5.0.1", "10.5.1.1", "10.5.2.10", "10.6.0.1", "10.6.1.1", "10.6.1.70",
		"10.8.0.1", "10.8.0.2", "10.8.1.1", "10.99.0.1", "10.9.0.10", "10.10.0.1", "10.10.1.1", "10.10.2.1", "10.10.3.1", "10.10.4.1", "10.10.5.1", "10.10.6.1",
		"10.10.8.1", "10.10.8.2", "10.11.0.1", "10.2.0.10", "10.2.0.200", "198.51.100.7", "203.0.113.9", "192.0.2.1", "192.0.2.2", "192.0.2.66", "198.51.100.1", "127.0.0.1", "169.254.1.1", "224.0.0.5",
		"239.1.1.1", "255.255.255.255", "0.0.0.0", "0.1.2.3", "240.0.0.1")
	telltale6 = addresses("2001:db8:10::1", "2001:db8:10:1::1", "2001:db8:99::7",
		"2001:db8:1::10", "2001:db8:1::66", "2001:db8:2::10", "2001:db8:2::80", "2001:db8:2:66::1", "2001:db8:3::10", "2001:db8:4::1",
		"2001:db8:7::10", "2001:db8:99::1", "2001:db8:ff00::1", "2001:db8:ff00::2", "2001:db8:ff00::66", "::", "::1", "fe80::1", "fec0::1", "ff02::1", "ff0e::1",
		"::ffff:10.2.0.10", "::ffff:127.0.0.1", "::ffff:169.254.0.1", "::ffff:224.0.0.1", "::ffff:0.0.0.0", "::10.2.0.10", "64:ff9b::a02:a", "fc00::1")
)

func addresses(texts ...string) (all []netip.Addr) {
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

// mutator changes packets.
type mutator struct {
	*rand.Rand
	packet []byte
	cases  []golden.Case
}

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

func (m *mutator) chance(percent int) bool { return m.IntN(100) < percent }

// next makes a packet for a hook out of one of its golden ones.
func (m *mutator) next(cases []golden.Case) []byte {
	m.cases = cases
	m.packet = bytes.Clone(pick(m.Rand, cases).Input)
	for range m.IntN(4) {
		pick(m.Rand, []func(){
			m.changeOctet, m.changeHeader, m.changeHeader, m.changeHeader, m.changeAddress, m.changeAddress, m.changeUDP, m.changeLISP, m.changeLISP, m.cut, m.pad, m.addHeader,
			m.grow, m.exchangeInner, m.changeChecksum, m.changeICMP,
		})()
	}
	if m.chance(60) {
		m.setLengths()
	}
	return m.packet
}

// header is where an IP header begins, that of the inner packet half of the time, and its family; 0 for none.
func (m *mutator) header() (at int, family byte) {
	if m.chance(50) {
		if inner := innerOf(m.packet); inner > 0 {
			at = inner
		}
	}
	return at, familyAt(m.packet, at)
}

// familyAt is the family of the IP header there, 0 where it is not whole.
func familyAt(packet []byte, at int) byte {
	switch {
	case at+20 <= len(packet) && packet[at]>>4 == 4:
		return 4
	case at+40 <= len(packet) && packet[at]>>4 == 6:
		return 6
	}
	return 0
}

// behind is where what follows an IP header without extension headers begins.
func behind(packet []byte, at int) int {
	if familyAt(packet, at) == 4 {
		return at + int(packet[at]&15)*4
	}
	return at + 40
}

// innerOf is where the inner packet begins if the packet is to a port of LISP, else 0.
func innerOf(packet []byte) int {
	if familyAt(packet, 0) == 0 {
		return 0
	}
	l4 := behind(packet, 0)
	if l4+16 >= len(packet) {
		return 0
	}
	if port := binary.BigEndian.Uint16(packet[l4+2:]); port != 4341 && port != 4790 {
		return 0
	}
	return l4 + 16
}

func (m *mutator) changeOctet() {
	if len(m.packet) > 0 {
		m.packet[m.IntN(min(len(m.packet), 120))] = byte(m.Uint32())
	}
}

func (m *mutator) changeHeader() {
	at, family := m.header()
	switch family {
	case 4:
		m.changeIPv4(m.packet[at:])
	case 6:
		m.changeIPv6(m.packet[at:])
	}
}

func (m *mutator) changeIPv4(h []byte) {
	switch m.IntN(8) {
	case 0:
		h[0] = 4<<4 | byte(m.IntN(16))
	case 1:
		h[0] = byte(m.IntN(16))<<4 | h[0]&15
	case 2:
		h[1] = pick(m.Rand, telltaleClasses)
	case 3:
		m.nudge(h[2:])
	case 4:
		binary.BigEndian.PutUint16(h[6:], pick(m.Rand, telltaleFragments))
	case 5, 6:
		h[8] = pick(m.Rand, telltaleTTLs)
	case 7:
		h[9] = pick(m.Rand, telltaleProtocols)
	}
}

func (m *mutator) changeIPv6(h []byte) {
	switch m.IntN(7) {
	case 0:
		h[0] = byte(m.IntN(16))<<4 | h[0]&15
	case 1:
		class := pick(m.Rand, telltaleClasses)
		h[0], h[1] = h[0]&0xF0|class>>4, class<<4|h[1]&15
	case 2:
		h[1], h[2], h[3] = byte(m.Uint32()), byte(m.Uint32()), byte(m.Uint32())
	case 3:
		m.nudge(h[4:])
	case 4:
		h[6] = pick(m.Rand, telltaleProtocols)
	case 5, 6:
		h[7] = pick(m.Rand, telltaleTTLs)
	}
}

// nudge lets a length lie, by a little as a rule.
func (m *mutator) nudge(field []byte) {
	length := binary.BigEndian.Uint16(field)
	switch m.IntN(4) {
	case 0:
		length = uint16(m.IntN(48))
	case 1:
		length = uint16(m.Uint32())
	default:
		length += uint16(m.IntN(33)) - 16
	}
	binary.BigEndian.PutUint16(field, length)
}

func (m *mutator) changeAddress() {
	at, family := m.header()
	from, octets, of := 12, 4, telltale4
	if family == 6 {
		from, octets, of = 8, 16, telltale6
	}
	if family == 0 {
		return
	}
	copy(m.packet[at+from+octets*m.IntN(2):], pick(m.Rand, of).AsSlice())
}

func (m *mutator) changeUDP() {
	at, family := m.header()
	if l4 := behind(m.packet, at); family != 0 && l4+8 <= len(m.packet) {
		switch m.IntN(4) {
		case 0:
			binary.BigEndian.PutUint16(m.packet[l4:], uint16(m.Uint32()))
		case 1:
			binary.BigEndian.PutUint16(m.packet[l4+2:], pick(m.Rand, telltalePorts))
		case 2:
			m.nudge(m.packet[l4+4:])
		case 3:
			binary.BigEndian.PutUint16(m.packet[l4+6:], uint16(m.Uint32()))
		}
	}
}

func (m *mutator) changeLISP() {
	inner := innerOf(m.packet)
	if inner == 0 {
		return
	}
	h := m.packet[inner-8:]
	switch m.IntN(6) {
	case 0:
		h[0] = byte(m.Uint32())
	case 1:
		h[0] ^= 1 << m.IntN(8)
	case 2:
		h[3] = byte(m.IntN(5)) // a next protocol
	case 3:
		h[1], h[2], h[3] = byte(m.Uint32()), byte(m.Uint32()), byte(m.Uint32())
	case 4:
		binary.BigEndian.PutUint32(h[4:], pick(m.Rand, telltaleInstances)<<8|m.Uint32()&0xFF)
	case 5:
		binary.BigEndian.PutUint32(h[4:], m.Uint32())
	}
}

func (m *mutator) cut() {
	if len(m.packet) > 20 {
		m.packet = m.packet[:20+m.IntN(len(m.packet)-20)]
	}
}

func (m *mutator) pad() {
	for range 1 + m.IntN(40) {
		m.packet = append(m.packet, byte(m.Uint32()))
	}
}

// addHeader puts options or an extension header behind an IP header.
func (m *mutator) addHeader() {
	at, family := m.header()
	switch family {
	case 4:
		words := m.IntN(16 - int(m.packet[at]&15))
		m.insert(at+20, bytes.Repeat([]byte{1}, words*4))
		m.packet[at] += byte(words)
	case 6:
		octets := 8
		if kind := pick(m.Rand, []byte{0, 43, 60, 60, 44}); kind != 44 {
			octets *= 1 + m.IntN(pick(m.Rand, []int{1, 3, 32}))
			m.insert(at+40, make([]byte, octets))
			m.packet[at+40], m.packet[at+41], m.packet[at+6] = m.packet[at+6], byte(octets/8-1), kind
			return
		}
		m.insert(at+40, make([]byte, octets))
		m.packet[at+40], m.packet[at+6] = m.packet[at+6], 44
		binary.BigEndian.PutUint16(m.packet[at+42:], uint16(m.Uint32())&pick(m.Rand, []uint16{0, 1, 8, 0xFFFF}))
	}
}

func (m *mutator) insert(at int, octets []byte) {
	m.packet = append(m.packet[:at:at], append(octets, m.packet[at:]...)...)
}

// grow makes a packet longer, to about what fits the path or more.
func (m *mutator) grow() {
	octets := pick(m.Rand, []int{100, 1390, 1410, 1440, 1460, 1480, 1500})
	if more := octets + m.IntN(40) - 20 - len(m.packet); more > 0 {
		m.packet = append(m.packet, make([]byte, more)...)
		m.setLengths()
	}
}

// exchangeInner puts the inner packet of another golden one behind these outer headers.
func (m *mutator) exchangeInner() {
	inner := innerOf(m.packet)
	other := pick(m.Rand, m.cases).Input
	if from := innerOf(other); inner > 0 && from > 0 {
		m.packet = append(m.packet[:inner:inner], other[from:]...)
	}
}

// changeChecksum sets that of an IPv4 header.
func (m *mutator) changeChecksum() {
	if at, family := m.header(); family == 4 {
		binary.BigEndian.PutUint16(m.packet[at+10:], pick(m.Rand, []uint16{0, 1, 0xFF, 0x100, 0x101, 0xFEFE, 0xFEFF, 0xFF00, 0xFFFE, 0xFFFF}))
	}
}

// changeICMP makes what follows an IP header an ICMP error about a packet to this site.
func (m *mutator) changeICMP() {
	family := familyAt(m.packet, 0)
	l4 := behind(m.packet, 0)
	if family == 0 || l4+8 > len(m.packet) {
		return
	}
	m.packet[map[byte]int{4: 9, 6: 6}[family]] = pick(m.Rand, []byte{1, 58})
	quoted := bytes.Clone(pick(m.Rand, m.cases).Input)
	if octets := len(quoted); m.chance(30) {
		quoted = quoted[:m.IntN(octets+1)]
	}
	m.packet = append(m.packet[:l4+8:l4+8], quoted...)
	m.packet[l4] = pick(m.Rand, []byte{0, 1, 2, 3, 4, 5, 8, 11, 12, 127, 128, 137})
	if to := l4 + 8; familyAt(m.packet, to) == family && m.chance(70) {
		if family == 4 {
			copy(m.packet[to+16:], pick(m.Rand, telltale4).AsSlice())
		} else {
			copy(m.packet[to+24:], pick(m.Rand, telltale6).AsSlice())
		}
	}
}

// setLengths makes all lengths true.
func (m *mutator) setLengths() {
	setLength(m.packet, 0)
	if inner := innerOf(m.packet); inner > 0 {
		binary.BigEndian.PutUint16(m.packet[inner-12:], uint16(len(m.packet)-inner+16))
		setLength(m.packet, inner)
	}
}

func setLength(packet []byte, at int) {
	switch familyAt(packet, at) {
	case 4:
		binary.BigEndian.PutUint16(packet[at+2:], uint16(len(packet)-at))
	case 6:
		binary.BigEndian.PutUint16(packet[at+4:], uint16(len(packet)-at-40))
	}
}
