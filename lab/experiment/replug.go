// SPDX-License-Identifier: Apache-2.0

package experiment

// Moves of rows: which ends of links are where, and how a node is plugged into another network.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"loci/internal/jsondoc"
	"loci/internal/testnet"
	"loci/lab"
)

// vethPairs are the places of both ends of each link that is a veth pair, as the moves so far left them.
type vethPairs [][2]place

// vethPairsOf are those of a file before its rows.
func vethPairsOf(links []link) vethPairs {
	var all vethPairs
	for _, l := range links {
		if l.Impair == nil && len(l.Ends) == 2 {
			all = append(all, [2]place{l.Ends[0].place(), l.Ends[1].place()})
		}
	}
	return all
}

func (e *end) place() place { return place{e.Node, e.Interface} }

// farEnd is where the other end of a link is; nil where the interface is not one of a veth pair.
func (c vethPairs) farEnd(near place) *place {
	for i := range c {
		if at := slices.Index(c[i][:], near); at >= 0 {
			return &c[i][1-at]
		}
	}
	return nil
}

// tryMove makes the move of a row and sends its datagrams again until the claim holds, or its time has passed. held is
// when those were sent with which it held.
func (n *Network) tryMove(ctx context.Context, w row, directory string) (v Verdict, held *jsondoc.Seconds, err error) {
	if err := w.Move.perform(ctx, n.Nodes, n.veths); err != nil {
		return v, nil, fmt.Errorf("move: %w", err)
	}
	moved := time.Now()
	last := max(0, w.Move.Within-resendWait) // what is sent later has no time to arrive
	for sent := time.Duration(0); sent <= last; sent = time.Since(moved) {
		v, err = n.try(ctx, w.Send, w.Expect, directory, min(resendWait, w.Move.Within-sent))
		if errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) { // no route yet
			v, err = Verdict{Wrong: []string{err.Error()}}, lab.Sleep(ctx, unroutedWait)
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return v, nil, err
		}
		if v.Passed {
			return v, new(jsondoc.SecondsOf(sent)), nil
		}
	}
	return v, nil, nil
}

// perform plugs an interface into another network. Once the overlap is over, the node loses the other one, if any.
func (m *move) perform(ctx context.Context, nodes map[string]*testnet.Namespace, all vethPairs) error {
	node, far := nodes[m.Node], all.farEnd(place{m.Node, m.Interface})
	err := testnet.Replug(
		testnet.End{Namespace: node, Name: m.Interface, Addresses: m.Addresses},
		testnet.End{Namespace: nodes[far.node], Name: far.link},
		testnet.End{Namespace: nodes[m.To.Node], Name: m.To.Interface, Addresses: m.To.Addresses})
	if err != nil {
		return err
	}
	*far = m.To.place()
	for _, r := range m.Routes {
		route := testnet.Route{Destination: r.To, Via: r.Via, Link: m.Interface, Metric: int(r.Metric)}
		if err := node.AddRoute(route); err != nil {
			return err
		}
	}
	if m.Loses == "" {
		return nil
	}
	if err := lab.Sleep(ctx, m.Overlap); err != nil {
		return err
	}
	return node.Disconnect(m.Loses)
}
