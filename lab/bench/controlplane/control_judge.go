// SPDX-License-Identifier: Apache-2.0

// What comes back to the load of `loci bench control`: Map-Notifies, Map-Replies, and Map-Requests that were forwarded to an
// ETR. Each is looked at, and one that is not as it has to be fails the bench.

package controlplane

import (
	"encoding/binary"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"loci/wire"
)

const (
	judgeBatch       = 32
	judgeControl4    = 64
	maxReplyOctets   = 65535
	mapRequestOctets = 12 // of a Map-Request up to its nonce's end
	innerUDPOctets   = 8
	ecmOctets        = 4
)

// receive looks at what comes until the socket is closed.
func (m *mapLoad) receive() {
	messages := make([]ipv4.Message, judgeBatch)
	for i := range messages {
		messages[i].Buffers, messages[i].OOB = [][]byte{make([]byte, maxReplyOctets)}, make([]byte, judgeControl4)
	}
	for {
		n, err := m.packets.ReadBatch(messages, 0)
		if err != nil {
			return
		}
		now := int64(time.Since(m.began))
		for i := range n {
			m.judgeAll(messages[i].Buffers[0][:messages[i].N], messages[i].OOB[:messages[i].NN], now)
		}
	}
}

// judgeAll cuts what the kernel put together.
func (m *mapLoad) judgeAll(octets, control []byte, now int64) {
	segment := len(octets)
	for len(control) > 0 {
		header, data, rest, err := unix.ParseOneSocketControlMessage(control)
		if err != nil {
			break
		}
		if header.Level == unix.IPPROTO_UDP && header.Type == udpGROOption {
			segment = int(binary.NativeEndian.Uint32(data))
		}
		control = rest
	}
	for len(octets) > 0 {
		one := octets[:min(segment, len(octets))]
		octets = octets[len(one):]
		m.judge(one, now)
	}
}

func (m *mapLoad) judge(b []byte, now int64) {
	if len(b) < mapRequestOctets {
		m.wrong.Add(1)
		return
	}
	switch wire.MessageType(b[0] >> 4) {
	case wire.TypeMapNotify:
		m.notified.Add(1)
	case wire.TypeMapReply:
		// One record with two locators and no action; not authoritative.
		if b[3] != 1 || len(b) < 24 || b[16] != 2 || b[18] != 0 {
			m.wrong.Add(1)
			return
		}
		m.answer(binary.BigEndian.Uint64(b[4:]), now)
	case wire.TypeEncapsulatedControlMessage:
		inner := 20
		if b[ecmOctets]>>4 == 6 {
			inner = 40
		}
		at := ecmOctets + inner + innerUDPOctets + 4
		if len(b) < at+8 {
			m.wrong.Add(1)
			return
		}
		m.answer(binary.BigEndian.Uint64(b[at:]), now)
	default:
		m.wrong.Add(1)
	}
}

// answer takes note of the answer to a Map-Request.
func (m *mapLoad) answer(nonce uint64, now int64) {
	if nonce == 0 || nonce > uint64(len(m.sentAt)) {
		m.wrong.Add(1)
		return
	}
	m.answered.Add(1)
	sent := m.sentAt[nonce-1].Swap(0)
	if sent == 0 || !m.keep.Load() {
		return
	}
	delays := <-m.delays
	m.delays <- append(delays, float64(now-sent))
}
