// SPDX-License-Identifier: Apache-2.0

package daemon

// What this host is like: its interfaces and addresses, as far as a
// configuration refers to them. Reads netlink, changes nothing.

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/lisp"
)

// hostView is a snapshot of the interfaces and their usable addresses.
type hostView struct {
	names     []string
	tentative bool                    // the kernel still verifies an IPv6 address
	addresses map[string][]netip.Addr // by interface, IPv4 first, each family ascending
}

func lookAtHost() (hostView, error) {
	view := hostView{addresses: map[string][]netip.Addr{}}
	links, err := netlink.LinkList()
	if err != nil {
		return view, fmt.Errorf("interfaces of this host: %w", err)
	}
	for _, link := range links {
		name := link.Attrs().Name
		view.names = append(view.names, name)
		// Routers often have their RLOC on lo; the loopback addresses themselves are none.
		if view.addresses[name], err = view.linkAddresses(link); err != nil {
			return view, fmt.Errorf("addresses of %s: %w", name, err)
		}
	}
	return view, nil
}

// linkAddresses are the addresses that may be RLOCs or EIDs: neither link-local
// nor deprecated nor still being verified.
func (v *hostView) linkAddresses(link netlink.Link) ([]netip.Addr, error) {
	list, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return nil, err
	}
	var addresses []netip.Addr
	for _, a := range list {
		ip, _ := netip.AddrFromSlice(a.IP)
		v.tentative = v.tentative || a.Flags&unix.IFA_F_TENTATIVE != 0 && a.Flags&unix.IFA_F_DADFAILED == 0 && !ip.IsLinkLocalUnicast()
		unusable := a.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED|unix.IFA_F_DEPRECATED) != 0
		if ip = ip.Unmap(); !unusable && lisp.RLOCFromAddr(ip).Valid() == nil {
			addresses = append(addresses, ip)
		}
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	return addresses, nil
}

// tentativePatience is how long a start waits for addresses that the kernel still
// verifies: duplicate address detection takes one to two seconds.
const tentativePatience = 4 * time.Second

// settledHost looks at the host when no address is being verified any more.
func settledHost() (hostView, error) {
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		view, err := lookAtHost()
		if err != nil || !view.tentative || time.Since(began) > tentativePatience {
			return view, err
		}
	}
}

func (v hostView) has(name string) bool { return slices.Contains(v.names, name) }

// holds reports whether an address is this host's.
func (v hostView) holds(a netip.Addr) bool { return v.interfaceOf(a) != "" }

// interfaceOf is the interface with that address, empty for none.
func (v hostView) interfaceOf(a netip.Addr) string {
	for name, addresses := range v.addresses {
		if slices.Contains(addresses, a) {
			return name
		}
	}
	return ""
}

// forwardingOff names the families in which the kernel does not forward between
// interfaces: the data plane respects that setting of the operator's.
func forwardingOff(families []string) (off []string) {
	for _, family := range families {
		path := "/proc/sys/net/ipv4/ip_forward"
		if family == "ipv6" {
			path = "/proc/sys/net/ipv6/conf/all/forwarding"
		}
		if value, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(value)) == "0" {
			off = append(off, path)
		}
	}
	return off
}
