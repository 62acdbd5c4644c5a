// SPDX-License-Identifier: Apache-2.0

// NAT boxes: a router that translates the sources of what it forwards, by the kernel's nftables.

package testnet

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// NAT translates both families' sources to an address of the interface Outside, with a port chosen at random: a NAT
// that keeps ports would prove nothing about a protocol.
type NAT struct {
	Namespace *Namespace // forwards already
	Outside   string     // the interface towards the Internet
	// UDPTimeout ends an idle binding of UDP; whole seconds; 0 leaves the kernel's 30 s, and 120 s after an
	// answer.
	UDPTimeout time.Duration
}

// natTable is the nftables table of a NAT.
const natTable = "loci-test-nat"

// Start begins to translate. It ends with the namespace.
func (n NAT) Start() error {
	if err := errors.Join(n.addRules(), n.setTimeouts()); err != nil {
		return fmt.Errorf("testnet: NAT on %s in %s: %w", n.Outside, n.Namespace.name, err)
	}
	return nil
}

func (n NAT) addRules() error {
	conn, err := nftables.New(nftables.WithNetNSFd(int(n.Namespace.file.Fd())))
	if err != nil {
		return err
	}
	outside := make([]byte, unix.IFNAMSIZ)
	if copy(outside, n.Outside) != len(n.Outside) || n.Outside == "" {
		return fmt.Errorf("%q is not a name of an interface", n.Outside)
	}
	table := conn.AddTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: natTable})
	chain := conn.AddChain(&nftables.Chain{
		Name: "postrouting", Table: table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource,
	})
	conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
		&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: outside},
		&expr.Masq{FullyRandom: true},
	}})
	return conn.Flush()
}

// setTimeouts comes after the rules: the kernel tracks connections for a namespace, and has settings for them, once a
// rule asks.
func (n NAT) setTimeouts() error {
	if n.UDPTimeout == 0 {
		return nil
	}
	seconds := strconv.Itoa(int(n.UDPTimeout / time.Second))
	return errors.Join(
		n.Namespace.SetSysctl("net.netfilter.nf_conntrack_udp_timeout", seconds),
		n.Namespace.SetSysctl("net.netfilter.nf_conntrack_udp_timeout_stream", seconds))
}

// Forget ends all bindings at once, as a NAT does that restarts.
func (n NAT) Forget() error {
	handle, err := netlink.NewHandleAt(netns.NsHandle(n.Namespace.file.Fd()), unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("testnet: NAT in %s: %w", n.Namespace.name, err)
	}
	defer handle.Close()
	if err := handle.ConntrackTableFlush(netlink.ConntrackTable); err != nil {
		return fmt.Errorf("testnet: NAT in %s: forget bindings: %w", n.Namespace.name, err)
	}
	return nil
}

// Bindings is how many UDP bindings there are for packets to an address and port.
func (n NAT) Bindings(to netip.AddrPort) (int, error) {
	handle, err := netlink.NewHandleAt(netns.NsHandle(n.Namespace.file.Fd()), unix.NETLINK_NETFILTER)
	if err != nil {
		return 0, fmt.Errorf("testnet: NAT in %s: %w", n.Namespace.name, err)
	}
	defer handle.Close()
	family := netlink.InetFamily(unix.AF_INET6)
	if to.Addr().Is4() {
		family = unix.AF_INET
	}
	flows, err := handle.ConntrackTableList(netlink.ConntrackTable, family)
	if err != nil {
		return 0, fmt.Errorf("testnet: NAT in %s: list bindings: %w", n.Namespace.name, err)
	}
	count := 0
	for _, f := range flows {
		address, _ := netip.AddrFromSlice(f.Forward.DstIP)
		if f.Forward.Protocol == unix.IPPROTO_UDP && f.Forward.DstPort == to.Port() && address.Unmap() == to.Addr() {
			count++
		}
	}
	return count, nil
}
