// SPDX-License-Identifier: Apache-2.0

package daemon

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

// hostNews wakes who follows the host. A wake-up that nobody took yet covers the next.
type hostNews struct {
	urgent   chan struct{} // an interface changed: traffic may be lost now
	settling chan struct{} // something else did, often one of several changes
	overruns atomic.Uint64 // times that news were lost
	gateways atomic.Pointer[[]netip.Addr]
	protocol int // of our own routes, which are no news
	log      *slog.Logger

	bufferOctets  int    // of the socket
	beforeReading func() // nil but in tests
}

func newHostNews(protocol int, log *slog.Logger) *hostNews {
	n := &hostNews{urgent: make(chan struct{}, 1), settling: make(chan struct{}, 1), protocol: protocol, log: log, bufferOctets: hostNewsOctets}
	n.gateways.Store(new([]netip.Addr))
	return n
}

// watchGateways says whose neighbour states are news.
func (n *hostNews) watchGateways(view hostView) {
	var gateways []netip.Addr
	for _, l := range view.links {
		gateways = append(gateways, l.gateways...)
	}
	n.gateways.Store(&gateways)
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run listens until the context ends. It begins with a wake-up, and has one after each
// time that it was deaf.
func (n *hostNews) run(ctx context.Context) {
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

func (n *hostNews) listen(ctx context.Context) error {
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
	wake(n.urgent)
	if n.beforeReading != nil {
		n.beforeReading()
	}
	for {
		messages, from, err := socket.Receive()
		switch {
		case errors.Is(err, unix.ENOBUFS):
			n.overruns.Add(1)
			wake(n.urgent)
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
func (n *hostNews) take(m syscall.NetlinkMessage) {
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		wake(n.urgent)
	case unix.RTM_NEWADDR, unix.RTM_DELADDR, unix.RTM_NEWRULE, unix.RTM_DELRULE:
		wake(n.settling)
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		if n.isNewsOfRoute(m) {
			wake(n.settling)
		}
	case unix.RTM_NEWNEIGH:
		if n.isNewsOfNeighbour(m) {
			wake(n.settling)
		}
	}
}

// isNewsOfRoute leaves out what this program added itself, caches, and tables that
// nothing of ours is made from. That a route of ours went is news.
func (n *hostNews) isNewsOfRoute(m syscall.NetlinkMessage) bool {
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
func (n *hostNews) isNewsOfNeighbour(m syscall.NetlinkMessage) bool {
	neighbour, err := netlink.NeighDeserialize(m.Data)
	if err != nil || neighbour.State&(netlink.NUD_FAILED|netlink.NUD_REACHABLE) == 0 {
		return false
	}
	ip, _ := netip.AddrFromSlice(neighbour.IP)
	return slices.Contains(*n.gateways.Load(), ip.Unmap())
}
