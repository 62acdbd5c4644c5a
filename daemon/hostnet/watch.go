// SPDX-License-Identifier: Apache-2.0

package hostnet

// Netlink's news: that interfaces, addresses, routes, rules or neighbours of this host
// changed. What they are like now is looked up afterwards (host.go), so that lost news
// cost nothing but a look. Needs no privilege, changes nothing.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"loci/internal/wakeup"
)

const (
	// hostNewsOctets is the socket's buffer: some thousand messages.
	hostNewsOctets = 1 << 20
	// hostNewsRetry is how long to wait when the kernel tells nothing.
	hostNewsRetry = time.Second
)

// hostNewsGroups are the multicast groups of rtnetlink that matter.
var hostNewsGroups = []uint{
	unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE,
	unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE, unix.RTNLGRP_NEIGH,
}

// Watch wakes the goroutine that follows the host. A wake-up that it has not taken yet covers the next.
type Watch struct {
	Urgent   wakeup.Signal // an interface changed: traffic may be lost now
	Settling wakeup.Signal // something else did, often one of several changes
	Lost     atomic.Uint64 // times that news were lost
	gateways atomic.Pointer[[]netip.Addr]
	protocol int // of our own routes, which are no news
	log      *slog.Logger

	// Prompt says whether default routes are acted upon at once, as interfaces are: a mobile node has no other path
	// meanwhile. nil for never.
	Prompt func() bool

	bufferOctets  int    // of the socket
	beforeReading func() // nil but in tests
}

// NewWatch returns a Watch to which routes of that protocol number, our own, are no news.
func NewWatch(protocol int, log *slog.Logger) *Watch {
	n := &Watch{Urgent: wakeup.New(), Settling: wakeup.New(), protocol: protocol, log: log, bufferOctets: hostNewsOctets}
	n.gateways.Store(new([]netip.Addr))
	return n
}

// WatchGateways says whose neighbour states are news.
func (n *Watch) WatchGateways(view View) {
	var gateways []netip.Addr
	for _, l := range view.Links {
		gateways = append(gateways, l.Gateways...)
	}
	n.gateways.Store(&gateways)
}

// Run listens until the context ends. It begins with a wake-up, and has one after each
// time that it was deaf.
func (n *Watch) Run(ctx context.Context) {
	for {
		err := n.listen(ctx)
		if ctx.Err() != nil {
			return
		}
		n.log.Warn("the kernel does not tell of changed interfaces: looking again", "error", err)
		select {
		case <-time.After(hostNewsRetry):
		case <-ctx.Done():
			return
		}
	}
}

func (n *Watch) listen(ctx context.Context) error {
	socket, err := nl.Subscribe(unix.NETLINK_ROUTE, hostNewsGroups...)
	if err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	_ = socket.SetReceiveBufferSize(n.bufferOctets, false)
	stop := context.AfterFunc(ctx, socket.Close)
	defer func() {
		if stop() {
			socket.Close()
		}
	}()
	n.Urgent.Set()
	if n.beforeReading != nil {
		n.beforeReading()
	}
	for {
		messages, from, err := socket.Receive()
		switch {
		case errors.Is(err, unix.ENOBUFS):
			n.Lost.Add(1)
			n.Urgent.Set()
			continue
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("netlink: %w", err)
		case from.Pid != nl.PidKernel:
			continue
		}
		for _, m := range messages {
			n.take(m)
		}
	}
}

// take wakes whom a message concerns.
func (n *Watch) take(m syscall.NetlinkMessage) {
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		n.Urgent.Set()
	case unix.RTM_NEWADDR, unix.RTM_DELADDR, unix.RTM_NEWRULE, unix.RTM_DELRULE:
		n.Settling.Set()
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		if n.isNewsOfRoute(m) {
			n.signal(nl.DeserializeRtMsg(m.Data).Dst_len == 0 && n.Prompt != nil && n.Prompt())
		}
	case unix.RTM_NEWNEIGH:
		if n.isNewsOfNeighbour(m) {
			n.Settling.Set()
		}
	}
}

func (n *Watch) signal(urgent bool) {
	if urgent {
		n.Urgent.Set()
	} else {
		n.Settling.Set()
	}
}

// isNewsOfRoute leaves out what this program added itself, caches, and tables that
// nothing of ours is made from. That a route of ours went is news.
func (n *Watch) isNewsOfRoute(m syscall.NetlinkMessage) bool {
	if len(m.Data) < unix.SizeofRtMsg {
		return false
	}
	route := nl.DeserializeRtMsg(m.Data)
	if int(route.Protocol) == n.protocol {
		return m.Header.Type == unix.RTM_DELROUTE
	}
	return route.Flags&unix.RTM_F_CLONED == 0 && route.Table == unix.RT_TABLE_MAIN
}

// isNewsOfNeighbour picks the gateways, when they answer or do not: a site has thousands
// of other neighbours.
func (n *Watch) isNewsOfNeighbour(m syscall.NetlinkMessage) bool {
	neighbour, err := netlink.NeighDeserialize(m.Data)
	if err != nil || neighbour.State&(netlink.NUD_FAILED|netlink.NUD_REACHABLE) == 0 {
		return false
	}
	ip, _ := netip.AddrFromSlice(neighbour.IP)
	return slices.Contains(*n.gateways.Load(), ip.Unmap())
}
