// SPDX-License-Identifier: Apache-2.0

package experiment

// How a row is tried, and how it is judged.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

// Verdict is the outcome of a row or of its control.
type Verdict struct {
	Passed bool     `json:"passed"`
	Sent   int      `json:"sent"` // datagrams
	Points []Point  `json:"points"`
	Drops  *uint64  `json:"drops"` // by how much the drop counter rose, where one is expected to
	Wrong  []string `json:"wrong"` // each expectation that was not met
}

// Point is what was seen at one place of a row.
type Point struct {
	Node      string `json:"node"`
	Interface string `json:"interface"`
	Expected  string `json:"expected"` // all, none or a share
	Seen      int    `json:"seen"`     // datagrams in the form that the row names
	Any       int    `json:"any"`      // datagrams in any form
}

// socket stands for the interface of a point that is a node's socket.
const socket = "socket"

// leastShare is what each of n points must get of what they share: half of an even share. For 64 datagrams and two points, an even
// hash misses it once in 20,000 tries.
func leastShare(count, n int) int { return count / (2 * n) }

// try sends the datagrams of a row or of a control, and judges what became of them within the longest wait. Frames are
// written below the directory, if any.
func (n *Network) try(ctx context.Context, s send, e expect, directory string, longest time.Duration) (Verdict, error) {
	count := cmp.Or(s.Count, defaultCount)
	if directory != "" {
		if err := os.MkdirAll(directory, 0o755); err != nil {
			return Verdict{}, err
		}
	}
	number := rand.Uint64() // tells this try from all others of the machine
	w, err := n.startWatch(number, e.places(), directory)
	if err != nil {
		return Verdict{}, err
	}
	n.watching.Store(w)
	defer n.watching.Store(nil)
	before, err := n.drops(ctx, e.Dropped)
	for i := 0; i < count && err == nil; i++ {
		err = n.sendOne(s, mark{number, uint64(i)})
	}
	if err != nil {
		return Verdict{}, errors.Join(err, w.stop())
	}
	w.await(&e, count, longest)
	if len(e.Unseen)+len(e.Unreceived) > 0 {
		time.Sleep(quietWait)
	}
	after, err := n.awaitDrops(ctx, e.Dropped, before+uint64(count), longest)
	if err := errors.Join(err, w.stop()); err != nil {
		return Verdict{}, err
	}
	return e.judge(w, count, after-before), nil
}

// Send sends a datagram from a node, as rows do: its flow is one of its own for each number.
func (n *Network) Send(from string, source, destination netip.Addr, number uint64) error {
	return n.sendOne(send{From: from, Source: source, Destination: destination}, mark{number: number})
}

func (n *Network) sendOne(s send, m mark) error {
	packet, err := s.build(m)
	if err != nil {
		return err
	}
	source, destination := s.Source, s.Destination
	if len(s.Inside) > 0 {
		source, destination = s.Inside[0].Source, s.Inside[0].Destination
	}
	return inject(n.Nodes[s.From], packet, source, destination)
}

// drops reads a drop counter.
func (n *Network) drops(ctx context.Context, d *dropped) (uint64, error) {
	if d == nil {
		return 0, nil
	}
	counters, err := n.Daemons[d.Node].Client.Counters(ctx)
	if err != nil {
		return 0, fmt.Errorf("counters of %s: %w", d.Node, err)
	}
	count, known := counters.Drops[d.Reason]
	if !known {
		return 0, fmt.Errorf("%s has no drop reason %q", d.Node, d.Reason)
	}
	return count, nil
}

// awaitDrops waits until a drop counter has a value, or for the longest wait. The daemon reads the counters now and
// then.
func (n *Network) awaitDrops(ctx context.Context, d *dropped, want uint64, longest time.Duration) (count uint64,
	err error) {
	for deadline := time.Now().Add(longest); ; time.Sleep(10 * time.Millisecond) {
		count, err = n.drops(ctx, d)
		if d == nil || err != nil || count >= want || time.Now().After(deadline) {
			return count, err
		}
	}
}

// places are all that the expectation looks at.
func (e *expect) places() map[place]bool {
	places := map[place]bool{}
	for _, points := range [][]point{e.Seen, e.Unseen, e.Shares} {
		for _, p := range points {
			places[place{p.Node, p.Interface}] = true
		}
	}
	return places
}

func (e *expect) judge(w *watch, count int, drops uint64) Verdict {
	v := Verdict{Sent: count}
	for _, where := range w.blind() {
		v.wrong("the capture on %s of %s missed %d frames", where.link, where.node, w.missed[where])
	}
	for _, p := range e.Seen {
		v.look(w, p, "all", count, count)
	}
	for _, p := range e.Unseen {
		v.look(w, p, "none", 0, 0)
	}
	for _, node := range e.Received {
		v.receive(w, node, "all", count)
	}
	for _, node := range e.Unreceived {
		v.receive(w, node, "none", 0)
	}
	shared := 0
	for _, p := range e.Shares {
		shared += v.look(w, p, "a share", leastShare(count, len(e.Shares)), count)
	}
	if len(e.Shares) > 0 && shared != count {
		v.wrong("%d of %d datagrams at the points that share them", shared, count)
	}
	if e.Dropped != nil {
		v.Drops = &drops
		if drops != uint64(count) {
			v.wrong("%s counted %d drops of reason %s, want %d", e.Dropped.Node, drops, e.Dropped.Reason, count)
		}
	}
	v.Passed = len(v.Wrong) == 0
	return v
}

// look judges one point: between least and most datagrams in its form.
func (v *Verdict) look(w *watch, p point, expected string, least, most int) int {
	seen, any := w.at(p)
	v.Points = append(v.Points, Point{p.Node, p.Interface, expected, seen, any})
	if seen < least || seen > most {
		v.wrong("%s of %s: %d of %d datagrams (%d in any form), want %s", p.Interface, p.Node, seen, v.Sent, any, expected)
	}
	return seen
}

// receive judges what the socket of a node got.
func (v *Verdict) receive(w *watch, node, expected string, want int) {
	got := w.receivedBy(node)
	v.Points = append(v.Points, Point{node, socket, expected, got, got})
	if got != want {
		v.wrong("%s received %d of %d datagrams, want %s", node, got, v.Sent, expected)
	}
}

func (v *Verdict) wrong(format string, args ...any) {
	v.Wrong = append(v.Wrong, fmt.Sprintf(format, args...))
}

// directoryOf is where the captures of a row go; empty without --out.
func directoryOf(out, variant string, number int, what string) string {
	if out == "" {
		return ""
	}
	return filepath.Join(out, variant, fmt.Sprintf("row-%d-%s", number, what))
}
