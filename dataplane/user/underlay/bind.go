// SPDX-License-Identifier: Apache-2.0

package underlay

// Sockets bound to interfaces, for destinations whose routes lead into the TUN: what is sent by them does not come back by it. To
// bind a socket that is not bound yet takes no privilege (socket(7), SO_BINDTODEVICE; Linux 5.7).

import (
	"maps"
	"net/netip"
)

// boundSockets is how many sockets of each family an interface has.
const boundSockets = 4

// bindings say by which interfaces datagrams leave. They never change.
type bindings struct {
	links   map[netip.Addr]int
	sockets map[int]sockets
}

// Bind has datagrams to some addresses leave by interfaces, which are named by their indexes. The map must not change. It opens
// sockets in the calling thread's network namespace.
func (p *Pool) Bind(links map[netip.Addr]int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	fresh := &bindings{links: links, sockets: map[int]sockets{}}
	if before := p.bound.Load(); before != nil {
		maps.Copy(fresh.sockets, before.sockets)
	}
	for _, link := range links {
		if _, opened := fresh.sockets[link]; opened || p.closed {
			continue
		}
		opened, err := openSockets(boundSockets, link)
		if err != nil {
			return err
		}
		fresh.sockets[link] = opened
		p.listen(opened)
	}
	p.bound.Store(fresh)
	return nil
}
