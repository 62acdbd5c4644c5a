// SPDX-License-Identifier: Apache-2.0

package experiment

// What must be true of a file before anything is made.

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// longestInterface is the kernel's IFNAMSIZ without its end, in octets.
const longestInterface = 15

// check returns everything that is wrong with a file, and where its text has it.
func (f *File) check(text []byte) error {
	c := checker{
		interfaces: map[string]map[string]bool{}, daemons: map[string]bool{}, veths: vethPairsOf(f.Links),
		text: text,
	}
	if f.Name == "" || f.Description == "" {
		c.wrong("name and description are needed")
	}
	for i, n := range f.Nodes {
		c.at = fmt.Sprintf("$.nodes[%d]", i)
		if c.interfaces[n.Name] != nil {
			c.wrong("two nodes are called %q", n.Name)
		}
		c.interfaces[n.Name] = map[string]bool{}
	}
	for i, l := range f.Links {
		c.at = fmt.Sprintf("$.links[%d]", i)
		if len(l.Ends) < 2 || len(l.Ends) > 2 && l.Impair == nil {
			c.wrong("a link has %d ends: want 2, or more where it has an impairment", len(l.Ends))
		}
		for _, e := range l.Ends {
			c.end(e)
		}
	}
	for i, n := range f.Nodes {
		c.at = fmt.Sprintf("$.nodes[%d]", i)
		c.nat(n)
	}
	for i, d := range f.Daemons {
		c.at = fmt.Sprintf("$.daemons[%d]", i)
		c.node("a daemon", d.Node)
		if c.daemons[d.Node] {
			c.wrong("node %s has two daemons", d.Node)
		}
		c.daemons[d.Node] = true
	}
	for i, r := range f.Rows {
		c.row(r, fmt.Sprintf("$.rows[%d]", i))
	}
	return errors.Join(c.errs...)
}

type checker struct {
	interfaces map[string]map[string]bool // of each node
	daemons    map[string]bool
	veths      vethPairs // as the moves of the rows so far left them
	text       []byte
	at         string // path of what is looked at in the text; empty is not known
	errs       []error
}

func (c *checker) wrong(format string, args ...any) {
	c.errs = append(c.errs, errors.New(positionOf(c.text, c.at)+fmt.Sprintf(format, args...)))
}

func (c *checker) node(what, name string) bool {
	if c.interfaces[name] == nil {
		c.wrong("%s: there is no node %q", what, name)
		return false
	}
	return true
}

func (c *checker) end(e end) {
	if !c.node("a link", e.Node) {
		return
	}
	if e.Interface == "" || len(e.Interface) > longestInterface || c.interfaces[e.Node][e.Interface] {
		c.wrong("node %s: interface %q: want a name of at most %d octets that no other interface of the node has",
			e.Node, e.Interface, longestInterface)
	}
	c.interfaces[e.Node][e.Interface] = true
}

func (c *checker) nat(n node) {
	if n.NAT == nil {
		return
	}
	if !n.Forwards || !c.interfaces[n.Name][n.NAT.Outside] {
		c.wrong("node %s: a NAT box forwards, and outside is one of its interfaces, not %q", n.Name, n.NAT.Outside)
	}
	if n.NAT.UDPTimeout < 0 || n.NAT.UDPTimeout%time.Second != 0 {
		c.wrong("node %s: udp-timeout %v: want whole seconds", n.Name, n.NAT.UDPTimeout)
	}
}

// row looks at the control first, as it is tried, where the row has a move: interfaces are others after it.
func (c *checker) row(r row, path string) {
	what := fmt.Sprintf("row %d", r.Number)
	c.at = path
	if r.Control.Change == "" {
		c.wrong("%s: the control does not say what it changes", what)
	}
	c.at = path + ".control"
	c.try(what+", control", r.Control.Send, r.Control.Expect)
	if r.Move != nil {
		c.move(what, r.Move, path+".move")
	}
	c.at = path
	c.try(what, r.Send, r.Expect)
}

func (c *checker) try(what string, s send, e expect) {
	c.node(what, s.From)
	if !s.Source.IsValid() || s.Source.Is4() != s.Destination.Is4() || !s.Destination.IsValid() {
		c.wrong("%s: source and destination are needed, of one family", what)
	}
	if s.Count < 0 || s.Count > maxCount {
		c.wrong("%s: count %d: want 1 to %d, or 0 for %d", what, s.Count, maxCount, defaultCount)
	}
	for _, outer := range s.Inside {
		if !outer.Source.IsValid() || outer.Source.Is4() != outer.Destination.Is4() || !outer.Destination.IsValid() {
			c.wrong("%s: source and destination of an outer header are needed, of one family", what)
		}
	}
	if len(e.Seen)+len(e.Unseen)+len(e.Shares)+len(e.Received)+len(e.Unreceived) == 0 {
		c.wrong("%s: nothing is expected", what)
	}
	for _, points := range [][]point{e.Seen, e.Unseen, e.Shares} {
		for _, p := range points {
			c.point(what, p)
		}
	}
	for _, name := range slices.Concat(e.Received, e.Unreceived) {
		c.node(what, name)
	}
	if e.Dropped != nil && !c.daemons[e.Dropped.Node] {
		c.wrong("%s: node %q has no daemon to count drops", what, e.Dropped.Node)
	}
}

func (c *checker) point(what string, p point) {
	if c.node(what, p.Node) && !c.interfaces[p.Node][p.Interface] {
		c.wrong("%s: node %s has no interface %q", what, p.Node, p.Interface)
	}
}
