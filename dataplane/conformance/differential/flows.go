// SPDX-License-Identifier: Apache-2.0

package differential

// Flows that are bound, and TCP packets by which connections of Multipath TCP begin and end.

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"github.com/gopacket/gopacket/layers"

	"loci/dataplane"
	"loci/dataplane/conformance"
	"loci/lisp"
)

// bindings generates what concerns flows, from a source of its own: a seed has the same other operations and packets as
// before there were flows.
type bindings struct{ random *rand.Rand }

func newBindings(seed uint64) bindings {
	return bindings{rand.New(rand.NewPCG(seed, 28))}
}

// operations are some bindings that are made and ended before a step.
func (g bindings) operations(most int) (operations []dataplane.Operation) {
	for range g.random.IntN(most) {
		if chance(g.random, 30) {
			operations = append(operations, dataplane.DeleteFlow{Flow: g.flow()})
			continue
		}
		path := lisp.PathTo(lisp.RLOCFromAddr(oneOf(g.random, conformance.PeerRLOCs...)))
		operations = append(operations, dataplane.PutFlow{Flow: g.flow(), Path: path})
	}
	return operations
}

// flow is one that packets of the seed may have, in one of the directions.
func (g bindings) flow() lisp.Flow {
	kind := g.random.IntN(2)
	from, to := conformance.SiteHosts[kind], netip.MustParseAddr(oneOf(g.random, remoteEIDs[kind]...))
	if chance(g.random, 30) { // relayed
		from = netip.MustParseAddr(oneOf(g.random, remoteEIDs[kind]...))
	}
	f := lisp.Flow{
		Instance: oneOf[lisp.InstanceID](g.random, 0, 0, 7), Source: lisp.EIDFromAddr(from),
		Destination: lisp.EIDFromAddr(to),
		Protocol:    uint8(oneOf(g.random, layers.IPProtocolTCP, layers.IPProtocolTCP, layers.IPProtocolUDP)),
		SourcePort:  1000 + uint16(g.random.IntN(flowPorts)), DestinationPort: 9,
	}
	if chance(g.random, 10) {
		return f.Reverse()
	}
	return f
}

// Flags of TCP.
const (
	flagFIN = 0x01
	flagSYN = 0x02
	flagRST = 0x04
	flagACK = 0x10
)

// edge are flags and options of a packet that begins or ends a connection. Some options lie about their length; all
// together fill whole words.
func (g bindings) edge() (flags uint8, options []byte) {
	flags = oneOf[uint8](g.random, flagSYN, flagSYN, flagSYN|flagACK, flagFIN|flagACK, flagFIN, flagRST,
		flagSYN|flagFIN)
	return flags, oneOf(g.random, nil, []byte{30, 4, 1, 0x81}, []byte{30, 4, 1, 0x81},
		[]byte{1, 1, 1, 1, 30, 4, 1, 0x81},
		[]byte{2, 4, 5, 180, 30, 4, 1, 0x81}, []byte{30, 5, 1, 0x81}, []byte{30, 0, 1, 1}, []byte{30, 1, 1, 1},
		[]byte{3, 200, 1, 1, 30, 4, 1, 0x81}, []byte{8, 4, 30, 4}, []byte{0, 0, 0, 0, 30, 4, 1, 0x81},
		[]byte{1, 1, 1, 30},
		append(make([]byte, 36), 30, 4, 1, 0x81), append(bytes.Repeat([]byte{1}, 36), 30, 4, 1, 0x81))
}

// edgeOf is a TCP header with the flags and options of the flow, and the payload behind it. Its checksum is that of the
// header without options: no engine looks at it.
func (f *innerFlow) edgeOf(tcp *layers.TCP, payload []byte) []byte {
	header := serialized(tcp)
	header[12], header[13] = byte(len(header)+len(f.options))<<2, f.flags
	return slices.Concat(header, f.options, payload)
}

// subflows takes the events of subflows that are there, and waits until there are so many.
func (r *rival) subflows(most int) (told []dataplane.Subflow) {
	for deadline := time.Now().Add(patience); ; {
		select {
		case event := <-r.plane.Events():
			if s, ok := event.(dataplane.Subflow); ok {
				told = append(told, s)
			}
		default:
			if len(told) >= most || time.Now().After(deadline) {
				return told
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// compareSubflows holds the events of an engine against those of the reference.
func compareSubflows(wanted []dataplane.Subflow, r *rival) error {
	if got := r.subflows(len(wanted)); len(got)+len(wanted) > 0 && !reflect.DeepEqual(got, wanted) {
		return fmt.Errorf("told of %+v, the reference of %+v", got, wanted)
	}
	return nil
}
