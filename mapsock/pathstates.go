// SPDX-License-Identifier: Apache-2.0

package mapsock

// What the engine knows of the ways to locators that are asked for: path MTUs (RFC 9300
// s.7.2) and Echo-Nonce (s.10.1), for a control plane in another process to show. An engine
// that cannot tell leaves zeros.

import (
	"errors"
	"fmt"

	"loci/lisp"
)

const (
	pathSize   = 8 + 3*timeSize // u32 MTU, u32 bits, times; then the address
	pathLearnt = 1              // of the bits
)

func appendPathStates(b []byte, a Attribute, m *Message) []byte {
	for i := range m.Paths {
		b = appendPathState(b, a, &m.Paths[i])
	}
	return b
}

func appendPathState(b []byte, a Attribute, p *PathState) []byte {
	address := p.RLOC.Addr().AsSlice()
	b = appendAttribute(b, a, pathSize+len(address))
	var bits uint32
	if p.Learnt {
		bits = pathLearnt
	}
	b = order.AppendUint32(b, uint32(max(p.MTU, 0)))
	b = order.AppendUint32(b, bits)
	b = appendMoment(b, p.Echo.AskedAt)
	b = appendMoment(b, p.Echo.EchoedAt)
	b = appendMoment(b, p.Echo.MissingAt)
	return append(b, address...)
}

func parsePathState(m *Message, v []byte) (err error) {
	address := v[pathSize:]
	if len(address) != 4 && len(address) != 16 {
		return fmt.Errorf("%d octets are not an address", len(address))
	}
	bits := order.Uint32(v[4:])
	p := PathState{MTU: int(order.Uint32(v)), Learnt: bits == pathLearnt, RLOC: rlocFrom(address)}
	if p.RLOC.IsZero() || bits > pathLearnt {
		return fmt.Errorf("bits %#x, address %x", bits, address)
	}
	var failed [3]error
	p.Echo.AskedAt, failed[0] = parseTime(v[8:])
	p.Echo.EchoedAt, failed[1] = parseTime(v[8+timeSize:])
	p.Echo.MissingAt, failed[2] = parseTime(v[8+2*timeSize:])
	m.Paths = append(m.Paths, p)
	return errors.Join(failed[:]...)
}

// PathStates asks what the engine knows of the ways to RLOCs, in their order.
func (c *Client) PathStates(rlocs []lisp.RLOC) ([]PathState, error) {
	var all []PathState
	for len(rlocs) > 0 {
		together := min(len(rlocs), MaxLocators)
		ask := Message{Type: TypeGetPaths}
		for _, r := range rlocs[:together] {
			ask.Locators = append(ask.Locators, Locator{Locator: lisp.Locator{RLOC: r}})
		}
		answer, err := c.ask(&ask)
		if err != nil {
			return nil, err
		}
		for i := range answer.Paths[:min(len(answer.Paths), together)] {
			if p := &answer.Paths[i]; p.RLOC == rlocs[i].WithPort(0) {
				p.RLOC = rlocs[i] // a port is not told back
			}
		}
		all = append(all, answer.Paths...)
		rlocs = rlocs[together:]
	}
	return all, nil
}
