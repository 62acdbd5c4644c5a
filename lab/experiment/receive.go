// SPDX-License-Identifier: Apache-2.0

package experiment

// Sockets of nodes: what a node receives, and the answers of those that answer. What is sent to an address of the
// node itself, such as the EID of a mobile node, passes no interface that a capture could look at.

import (
	"errors"
	"net"
	"net/netip"
	"slices"
)

// listener is the socket of a node.
type listener struct {
	conn  *net.UDPConn
	ended chan struct{}
}

// listen opens the sockets of all nodes that answer, and of those that a row asks about.
func (n *Network) listen() error {
	for _, node := range n.file.Nodes {
		if !node.Answers && !n.file.asksAbout(node.Name) {
			continue
		}
		conn, err := n.Nodes[node.Name].ListenUDP(netip.AddrPortFrom(netip.IPv6Unspecified(), testPort))
		if err != nil {
			return err
		}
		l := &listener{conn, make(chan struct{})}
		n.listeners = append(n.listeners, l)
		go n.receive(l, node)
	}
	return nil
}

// asksAbout says whether a row has something to say about what a node receives.
func (f *File) asksAbout(name string) bool {
	return slices.ContainsFunc(f.Rows, func(r row) bool {
		return slices.ContainsFunc([]expect{r.Expect, r.Control.Expect}, func(e expect) bool {
			return slices.Contains(e.Received, name) || slices.Contains(e.Unreceived, name)
		})
	})
}

// receive reads until the socket is closed.
func (n *Network) receive(l *listener, node node) {
	defer close(l.ended)
	buffer := make([]byte, markOctets+1)
	for {
		length, from, err := l.conn.ReadFromUDPAddrPort(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		m, ok := readMark(buffer[:length])
		if err != nil || !ok {
			continue
		}
		if w := n.watching.Load(); w != nil {
			w.receive(node.Name, m)
		}
		if node.Answers {
			_, _ = l.conn.WriteToUDPAddrPort(m.octets(), from) // one that is not sent is not seen
		}
	}
}

// closeListeners ends the sockets and waits for their readers.
func (n *Network) closeListeners() error {
	var all []error
	for _, l := range n.listeners {
		all = append(all, l.conn.Close())
		<-l.ended
	}
	n.listeners = nil
	return errors.Join(all...)
}
