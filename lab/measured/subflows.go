// SPDX-License-Identifier: Apache-2.0

package measured

// Hosts that open several subflows of Multipath TCP between one address at each end: Linux joins none by itself, so the
// server signals further ports (ip-mptcp(8)).

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"loci/internal/testnet"
	"loci/lab"
)

const (
	mostSubflows = "8"
	firstPort    = 5100
)

// allowSubflows has hosts take part in sessions of several subflows.
func (m *measuring) allowSubflows(ctx context.Context) error {
	for _, host := range []string{"host-a", "host-b", "host-c"} {
		if err := m.Nodes[host].SetSysctl("net.mptcp.enabled", "1"); err != nil {
			return fmt.Errorf("Multipath TCP: %w", err)
		}
		// The port of an IPv6 address finds no room in TCP's options beside timestamps.
		if err := m.Nodes[host].SetSysctl("net.ipv4.tcp_timestamps", "0"); err != nil {
			return err
		}
		if err := lab.MPTCP(ctx, m.Nodes[host], "limits", "set", "subflow", mostSubflows, "add_addr_accepted",
			mostSubflows); err != nil {
			return err
		}
	}
	return nil
}

// subflows is the goodput of one session of so many subflows, in bit/s. Fewer that joined are an error.
func (m *measuring) subflows(ctx context.Context, client string, to netip.Addr, count int,
	lasts time.Duration) (float64, error) {
	server := m.Nodes["host-b"]
	before, err := m.signalPorts(ctx, to, count-1)
	if err != nil {
		return 0, err
	}
	rate, err := m.goodput(ctx, m.pathTransfer(client, to, count, lasts))
	if err != nil {
		return 0, err
	}
	after, err := joinsOf(server)
	if err == nil && after-before != uint64(count-1) {
		err = fmt.Errorf("%d subflows joined the session, want %d", after-before, count-1)
	}
	return rate, err
}

// signalPorts has host-b offer so many further ports of an address for joins, and returns how many have joined so far.
func (m *measuring) signalPorts(ctx context.Context, address netip.Addr, count int) (joined uint64, err error) {
	server := m.Nodes["host-b"]
	if err := lab.MPTCP(ctx, server, "endpoint", "flush"); err != nil {
		return 0, err
	}
	for range count {
		port := firstPort + m.ports // a new one each time: the kernel keeps an old one for a while
		m.ports++
		if err := lab.MPTCP(ctx, server, "endpoint", "add", address.String(), "port", strconv.Itoa(port),
			"signal"); err != nil {
			return 0, err
		}
	}
	return joinsOf(server)
}

// joinsOf is how many subflows have joined sessions at a host: MPTcpExt's MPJoinAckRx.
func joinsOf(at *testnet.Namespace) (count uint64, err error) {
	err = at.Do(func() (err error) {
		text, err := os.ReadFile("/proc/thread-self/net/netstat")
		if err == nil {
			count, err = netstatCounter(text, "MPTcpExt", "MPJoinAckRx")
		}
		return err
	})
	return count, err
}

// netstatCounter reads one counter of /proc/net/netstat: a line of names, and a line of values.
func netstatCounter(text []byte, group, name string) (uint64, error) {
	var names []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != group+":" {
			continue
		}
		if names == nil {
			names = fields
			continue
		}
		for i := range min(len(names), len(fields)) {
			if names[i] == name {
				return strconv.ParseUint(fields[i], 10, 64)
			}
		}
	}
	return 0, errors.New("the kernel counts no " + name)
}

// limitXTR has the link of xtr-a carry so much, in bit/s; 0 for all that comes.
func (m *measuring) limitXTR(rate uint64) error {
	return m.Emulated[0].ImpairBoth(m.Nodes["xtr-a"], m.Nodes["core"],
		testnet.Impairment{Delay: xtrLinkDelay, Rate: rate})
}
