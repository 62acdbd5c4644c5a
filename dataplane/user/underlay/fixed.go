// SPDX-License-Identifier: Apache-2.0

package underlay

// Sockets that send from one source port, by which a NAT knows what they send. Others receive at that port, and go on
// doing so: these are bound to the loopback address, and each datagram names its own source.

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"

	"golang.org/x/sys/unix"
)

// maxFixedPorts bounds the source ports that are open.
const maxFixedPorts = 16

// ErrPortLimit says that datagrams leave from as many source ports as can be open.
var ErrPortLimit = errors.New("too many source ports")

// fixedAt is a source port at an interface; 0 is any.
type fixedAt struct {
	link int
	port uint16
}

// FixPort opens a source port, unless it is open, in the calling thread's network namespace. It stays open.
func (p *Pool) FixPort(port uint16) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.bound.Load()
	if _, open := before.fixed[fixedAt{port: port}]; open || p.closed {
		return nil
	}
	if len(before.ports()) >= maxFixedPorts {
		return fmt.Errorf("%d source ports are open: %w", maxFixedPorts, ErrPortLimit)
	}
	opened := map[fixedAt]sockets{}
	for _, link := range before.openLinks() {
		ported, err := fixAll([]uint16{port}, link)
		if err != nil {
			return errors.Join(err, closeAll(opened))
		}
		maps.Copy(opened, ported)
	}
	fresh := *before
	fresh.fixed = maps.Clone(before.fixed)
	maps.Copy(fresh.fixed, opened)
	p.bound.Store(&fresh)
	return nil
}

// ports are the source ports that are open.
func (b *bindings) ports() (list []uint16) {
	for at := range b.fixed {
		if at.link == 0 {
			list = append(list, at.port)
		}
	}
	return list
}

// openLinks are the interfaces that have sockets, and 0 for any.
func (b *bindings) openLinks() []int {
	links := []int{0}
	for link := range b.sockets {
		links = append(links, link)
	}
	return links
}

// fixAll opens source ports at an interface.
func fixAll(ports []uint16, link int) (map[fixedAt]sockets, error) {
	opened := map[fixedAt]sockets{}
	for _, port := range ports {
		s, err := fix(port, link)
		if err != nil {
			return nil, errors.Join(err, closeAll(opened))
		}
		opened[fixedAt{link, port}] = s
	}
	return opened, nil
}

func closeAll(all map[fixedAt]sockets) error {
	var errs []error
	for _, s := range all {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

// fix opens a source port of each family. A host without IPv6 has that of IPv4 alone.
func fix(port uint16, link int) (opened sockets, err error) {
	four, err := openFixed(false, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port), link)
	if err != nil {
		return sockets{}, err
	}
	opened.four = append(opened.four, four)
	six, err := openFixed(true, netip.AddrPortFrom(netip.IPv6Loopback(), port), link)
	switch {
	case IsWithoutIPv6(err):
		return opened, nil
	case err != nil:
		return sockets{}, errors.Join(fmt.Errorf("IPv6: %w", err), opened.close())
	}
	opened.six = append(opened.six, six)
	return opened, nil
}

// openFixed opens a socket beside those that receive at the port, which allow it (SO_REUSEPORT). The loopback address
// may be missing.
func openFixed(six bool, at netip.AddrPort, link int) (*socket, error) {
	return open(six, at, func(fd int) error {
		err := configureSender(six)(fd)
		if six {
			err = errors.Join(err, option(fd, unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1))
		} else {
			err = errors.Join(err, option(fd, unix.IPPROTO_IP, unix.IP_FREEBIND, 1))
		}
		if link != 0 {
			err = errors.Join(err, option(fd, unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX, link))
		}
		return errors.Join(err, option(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
	})
}
