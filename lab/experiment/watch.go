// SPDX-License-Identifier: Apache-2.0

package experiment

// Captures on the interfaces that a row names.

import (
	"cmp"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"loci/internal/testnet"
)

// place is an interface of a node.
type place struct{ node, link string }

// watch remembers where datagrams of one try were seen.
type watch struct {
	try      uint64
	captures map[place]*testnet.Running
	files    []*testnet.PcapFile
	missed   map[place]uint64 // frames that a full queue lost, once the captures have ended

	mu       sync.Mutex
	seen     map[place]map[passing][]sighting // in how many forms each passed
	received map[string]map[uint64]bool       // by the node whose socket got it, and its number
}

// passing is a datagram of a try, or the answer to it.
type passing struct {
	number uint64
	answer bool
}

// maxForms bounds in how many forms a datagram is remembered at one place; it passes a relay's link in two.
const maxForms = 8

// maxCaptureOctets bounds the file of one interface and try.
const maxCaptureOctets = 16 << 20

// startWatch begins to capture on the places; with a directory the frames are written there as well.
func (n *Network) startWatch(try uint64, places map[place]bool, directory string) (*watch, error) {
	w := &watch{
		try: try, captures: map[place]*testnet.Running{}, missed: map[place]uint64{},
		seen: map[place]map[passing][]sighting{}, received: map[string]map[uint64]bool{},
	}
	for where := range places { // before any capture, which read the map
		w.seen[where] = map[passing][]sighting{}
	}
	for where := range places {
		if err := w.capture(n, where, directory); err != nil {
			return nil, errors.Join(err, w.stop())
		}
	}
	return w, nil
}

func (w *watch) capture(n *Network, where place, directory string) error {
	var file *testnet.PcapFile
	if directory != "" {
		var err error
		if file, err = testnet.CreatePcap(filepath.Join(directory, where.node+"-"+where.link+".pcap"), maxCaptureOctets); err != nil {
			return err
		}
		w.files = append(w.files, file)
	}
	running, err := testnet.Capture{Namespace: n.Nodes[where.node],
		Links: []string{where.link}}.Start(func(c testnet.Captured) error {
		ours := slices.DeleteFunc(understand(c.Data), func(s sighting) bool { return s.mark.try != w.try })
		for _, s := range ours {
			w.see(where, s)
		}
		if len(ours) == 0 || file == nil {
			return nil
		}
		return file.Take(c)
	})
	if err != nil {
		return err
	}
	w.captures[where] = running
	return nil
}

func (w *watch) see(where place, s sighting) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := passing{s.mark.number, s.answer}
	if forms := w.seen[where][p]; len(forms) < maxForms && !slices.Contains(forms, s) {
		w.seen[where][p] = append(forms, s)
	}
}

// receive takes note of a datagram that the socket of a node got.
func (w *watch) receive(node string, m mark) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m.try != w.try {
		return
	}
	if w.received[node] == nil {
		w.received[node] = map[uint64]bool{}
	}
	w.received[node][m.number] = true
}

// receivedBy counts the datagrams that the socket of a node got.
func (w *watch) receivedBy(node string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.received[node])
}

func (w *watch) stop() error {
	var all []error
	for where, c := range w.captures {
		all = append(all, c.Stop())
		if _, missed := c.Packets(); missed > 0 {
			w.missed[where] = missed
		}
	}
	for _, f := range w.files {
		all = append(all, f.Close())
	}
	return errors.Join(all...)
}

// blind are the places whose captures missed frames, in order: nothing can be said of what passed there.
func (w *watch) blind() []place {
	return slices.SortedFunc(maps.Keys(w.missed), func(a, b place) int {
		return cmp.Or(strings.Compare(a.node, b.node), strings.Compare(a.link, b.link))
	})
}

// at counts the datagrams that passed a point in its form, and those that passed its interface in any form.
func (w *watch) at(p point) (inForm, any int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for what, forms := range w.seen[place{p.Node, p.Interface}] {
		if what.answer != p.Answer {
			continue
		}
		any++
		if slices.ContainsFunc(forms, p.matches) {
			inForm++
		}
	}
	return inForm, any
}

func (p *point) matches(s sighting) bool {
	return (p.Layers == nil || *p.Layers == s.layers) &&
		(!p.Source.IsValid() || p.Source == s.source) &&
		(!p.Destination.IsValid() || p.Destination == s.destination) &&
		(p.SourcePort == 0 || p.SourcePort == s.sourcePort)
}

// await returns when all datagrams were seen where they must be, or after the longest wait.
func (w *watch) await(e *expect, count int, longest time.Duration) {
	for deadline := time.Now().Add(longest); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if e.complete(w, count) {
			return
		}
	}
}

func (e *expect) complete(w *watch, count int) bool {
	for _, p := range e.Seen {
		if seen, _ := w.at(p); seen < count {
			return false
		}
	}
	for _, node := range e.Received {
		if w.receivedBy(node) < count {
			return false
		}
	}
	shared := 0
	for _, p := range e.Shares {
		seen, _ := w.at(p)
		shared += seen
	}
	return len(e.Shares) == 0 || shared >= count
}
