// SPDX-License-Identifier: Apache-2.0

// Evidence of the first packet's path: captures on the hosts' links and on the core's, none of them made by a daemon. What
// the control messages say is decoded by package wire (RFC 9301 s.5).
//
// It never believes a daemon's word about its own packets.

package demo

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"loci/internal/testnet"
)

// maxSightings bounds what one watch remembers: some twenty pings and a resolution in each direction.
const maxSightings = 4096

// sighting is one packet that a capture saw.
type sighting struct {
	at    time.Time
	where string // host, or the edge whose packet came into the core
	packetMeaning
}

// watch is the captures during the pings of one pair.
type watch struct {
	captures []*testnet.Running

	mu        sync.Mutex
	sightings []sighting
	overflow  bool
}

// startWatch sees every packet of both hosts, and every packet as it enters the core, from now on.
func (t *topology) startWatch() (*watch, error) {
	w := &watch{}
	for _, capture := range []testnet.Capture{
		{Namespace: t.at(siteA.host), Links: []string{hostLink}},
		{Namespace: t.at(siteB.host), Links: []string{hostLink}},
		{Namespace: t.at("core"), Links: coreLinks(), IncomingOnly: true},
	} {
		host := capture.Namespace.Role()
		running, err := capture.Start(func(p testnet.Captured) error { return w.see(host, p) })
		if err != nil {
			return nil, errors.Join(err, w.stop())
		}
		w.captures = append(w.captures, running)
	}
	return w, nil
}

func coreLinks() []string { return []string{siteA.name, mappingSystem.name, siteB.name} }

func (w *watch) see(namespace string, p testnet.Captured) error {
	meaning, ok := understand(p.Data)
	if !ok {
		return nil
	}
	where := namespace
	if namespace == "core" {
		where = p.Link
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.sightings) == maxSightings {
		w.overflow = true
		return nil
	}
	w.sightings = append(w.sightings, sighting{at: p.Time, where: where, packetMeaning: meaning})
	return nil
}

func (w *watch) stop() error {
	var all []error
	for _, capture := range w.captures {
		all = append(all, capture.Stop())
	}
	return errors.Join(all...)
}

// milestone is one station of the first packet's path.
type milestone struct {
	after time.Duration // since host-a sent
	from  string
	to    string
	what  string
}

// firstPath is what happened to the first packet of a pair, and to its answer.
type firstPath struct {
	mapRequest, mapReply, delivered time.Duration
	story                           []milestone
}

// stations of the path from one host to the other, in the order in which they must come.
type stations struct {
	sent, request, reply, data, delivered sighting
}

// path puts the sightings of a pair in order. A station that no capture saw is an error: the packet took another path.
func (w *watch) path(pair int) (firstPath, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.overflow {
		return firstPath{}, fmt.Errorf("more than %d packets while watching %s", maxSightings, pairNames[pair])
	}
	slices.SortStableFunc(w.sightings, func(a, b sighting) int { return a.at.Compare(b.at) })
	s, err := w.stations(siteA, siteB, pair)
	if err != nil {
		return firstPath{}, fmt.Errorf("%s: the first packet's path from %s to %s: %w", pairNames[pair], siteA.host, siteB.host, err)
	}
	since := func(x sighting) time.Duration { return x.at.Sub(s.sent.at) }
	return firstPath{
		mapRequest: since(s.request), mapReply: since(s.reply), delivered: since(s.delivered),
		story: w.story(pair, s.sent.at),
	}, nil
}

func (w *watch) stations(from, to site, pair int) (s stations, err error) {
	source, destination := from.eid(pair), to.eid(pair)
	isEcho := func(host string) func(sighting) bool {
		return func(x sighting) bool {
			return x.kind == kindEchoRequest && x.where == host && x.source == source && x.destination == destination
		}
	}
	find := func(what string, is func(sighting) bool, after time.Time) sighting {
		for _, x := range w.sightings {
			if !x.at.Before(after) && is(x) {
				return x
			}
		}
		if err == nil {
			err = fmt.Errorf("no %s was seen in its place", what)
		}
		return sighting{at: after}
	}
	s.sent = find("echo request leaving "+from.host, isEcho(from.host), time.Time{})
	s.request = find("Map-Request of "+from.name, func(x sighting) bool {
		return x.kind == kindMapRequest && x.where == from.name && x.covers(destination)
	}, s.sent.at)
	s.reply = find("Map-Reply to "+from.name, func(x sighting) bool {
		return x.kind == kindMapReply && x.covers(destination) && x.nonce == s.request.nonce
	}, s.request.at)
	s.data = find("LISP packet of "+from.name, func(x sighting) bool {
		return x.kind == kindData && x.where == from.name && x.destination == destination && x.outerDestination == to.rloc(pair)
	}, s.reply.at)
	s.delivered = find("echo request reaching "+to.host, isEcho(to.host), s.data.at)
	return s, err
}

// story is everything from the first packet to its answer, told once each: of the packets that follow, none.
func (w *watch) story(pair int, begin time.Time) []milestone {
	told := map[string]bool{}
	var story []milestone
	for _, x := range w.sightings {
		if x.at.Before(begin) || !x.concerns(pair) {
			continue
		}
		m := milestone{after: x.at.Sub(begin), from: x.where, to: x.nextHop(), what: x.tell()}
		key := m.from + m.to + x.once()
		if told[key] {
			continue
		}
		told[key] = true
		story = append(story, m)
		if x.kind == kindEchoReply && x.where == siteA.host {
			break
		}
	}
	return story
}

// concerns reports whether the packet carries, or asks for, an EID of the pair.
func (x sighting) concerns(pair int) bool {
	a, b := siteA.eid(pair), siteB.eid(pair)
	switch x.kind {
	case kindMapRequest, kindMapReply:
		return x.covers(a) || x.covers(b)
	case kindData:
		return x.source == a || x.source == b
	}
	return x.source == a || x.source == b || x.destination == a || x.destination == b
}

// nextHop names where a packet in the core goes; empty when it is at its end.
func (x sighting) nextHop() string {
	for _, e := range []edge{siteA.edge, siteB.edge, mappingSystem} {
		if x.outerDestination == e.rloc4 || x.outerDestination == e.rloc6 {
			return e.name
		}
	}
	return ""
}
