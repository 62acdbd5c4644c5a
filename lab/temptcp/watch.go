// SPDX-License-Identifier: Apache-2.0

package temptcp

// Captures at all RTRs: which subflows they were sent, and until when.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/bpf"

	"loci/internal/testnet"
)

// flow is a subflow by its ends. That of the client is the one that opened it.
type flow struct{ client, server netip.AddrPort }

// sight is what captures have seen of one direction of a subflow.
type sight struct {
	opened  time.Time            // its first SYN
	known   time.Time            // its first packet without SYN: of the client, the end of its handshake
	last    map[string]time.Time // by the site of the RTR
	packets map[string]uint64
}

// watch has what was seen since forget.
type watch struct {
	servers netip.Prefix // to which clients send

	mu   sync.Mutex
	seen map[flow]*[2]sight // to the server, and back

	captures map[string]*testnet.Running // fixed after the start
}

// startWatch captures what comes to the RTR of each site.
func startWatch(rtrs map[string]*testnet.Namespace, servers netip.Prefix) (*watch, error) {
	w := &watch{servers: servers, seen: map[flow]*[2]sight{}, captures: map[string]*testnet.Running{}}
	for site, node := range rtrs {
		capture := testnet.Capture{Namespace: node, Links: []string{core}, IncomingOnly: true,
			Filter: dataPackets}
		running, err := capture.Start(func(c testnet.Captured) error {
			w.take(site, c.Time, c.Data)
			return nil
		})
		if err != nil {
			return nil, errors.Join(err, w.stop())
		}
		w.captures[site] = running
	}
	return w, nil
}

// stop ends all captures. One that missed packets is an error: what it did not see may have been anything.
func (w *watch) stop() error {
	var all []error
	for site, running := range w.captures {
		all = append(all, running.Stop())
		if _, missed := running.Packets(); missed > 0 {
			all = append(all, fmt.Errorf("the capture at the RTR of %s missed %d packets", site, missed))
		}
	}
	w.captures = nil
	return errors.Join(all...)
}

const (
	ethernetOctets = 14
	udpOctets      = 8
	lispOctets     = 8
	ipv4Octets     = 20
	dataPort       = 4341
	protocolTCP    = 6
	protocolUDP    = 17
	flagSYN        = 0x02
	headersOctets  = 160 // of a frame, all that is looked at
)

// dataPackets are those of LISP over IPv4 without options.
var dataPackets = []bpf.Instruction{
	bpf.LoadAbsolute{Off: 12, Size: 2},
	bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0x0800, SkipTrue: 5},
	bpf.LoadAbsolute{Off: ethernetOctets + 9, Size: 1},
	bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: protocolUDP, SkipTrue: 3},
	bpf.LoadAbsolute{Off: ethernetOctets + ipv4Octets + 2, Size: 2},
	bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: dataPort, SkipTrue: 1},
	bpf.RetConstant{Val: headersOctets},
	bpf.RetConstant{Val: 0},
}

// tcpIn finds the TCP packet in a frame that dataPackets lets through.
func tcpIn(frame []byte) (from, to netip.AddrPort, flags byte, ok bool) {
	inner := frame[min(len(frame), ethernetOctets+ipv4Octets+udpOctets+lispOctets):]
	if len(inner) < ipv4Octets || inner[0]>>4 != 4 || inner[9] != protocolTCP {
		return from, to, 0, false
	}
	tcp := inner[min(len(inner), int(inner[0]&0xf)*4):]
	if len(tcp) < ipv4Octets {
		return from, to, 0, false
	}
	from = netip.AddrPortFrom(netip.AddrFrom4([4]byte(inner[12:16])), binary.BigEndian.Uint16(tcp))
	to = netip.AddrPortFrom(netip.AddrFrom4([4]byte(inner[16:20])), binary.BigEndian.Uint16(tcp[2:]))
	return from, to, tcp[13], true
}

func (w *watch) take(site string, at time.Time, frame []byte) {
	from, to, flags, ok := tcpIn(frame)
	if !ok {
		return
	}
	f, back := flow{from, to}, 0
	if !w.servers.Contains(to.Addr()) {
		f, back = flow{to, from}, 1
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen[f] == nil {
		w.seen[f] = new([2]sight)
	}
	w.seen[f][back].add(site, at, flags)
}

func (s *sight) add(site string, at time.Time, flags byte) {
	if s.last == nil {
		s.last, s.packets = map[string]time.Time{}, map[string]uint64{}
	}
	first := &s.known
	if flags&flagSYN != 0 {
		first = &s.opened
	}
	if first.IsZero() || at.Before(*first) {
		*first = at
	}
	if at.After(s.last[site]) {
		s.last[site] = at
	}
	s.packets[site]++
}

// forget begins anew, with the next transfer.
func (w *watch) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.seen)
}

// tripsToBinding is how many round trips after its handshake a subflow may be on other paths.
const tripsToBinding = 2

// deviation says where a subflow was on other paths than its own, by the sites of their RTRs; empty if it was not. A
// path that is empty is an error: no router bound the subflow.
func (w *watch) deviation(f flow, forth, back string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.seen[f]
	if seen == nil || seen[0].known.IsZero() || seen[0].opened.IsZero() {
		return fmt.Sprintf("subflow %s to %s: no RTR was sent its handshake", f.client, f.server)
	}
	trip := seen[0].known.Sub(seen[0].opened)
	until := seen[0].known.Add(tripsToBinding * trip)
	for i, own := range []string{forth, back} {
		if own == "" {
			return fmt.Sprintf("subflow %s to %s is bound to no path (to %q, back %q)", f.client, f.server,
				forth, back)
		}
		if seen[i].last[own].IsZero() {
			return fmt.Sprintf("subflow %s to %s: the RTR of %s, on its path, was sent nothing", f.client,
				f.server, own)
		}
		for _, site := range slices.Sorted(maps.Keys(seen[i].last)) {
			if last := seen[i].last[site]; site != own && last.After(until) {
				return fmt.Sprintf("subflow %s to %s: the RTR of %s was sent packets %.3f s after the handshake; its path is by %s",
					f.client, f.server, site, last.Sub(seen[0].known).Seconds(), own)
			}
		}
	}
	return ""
}
