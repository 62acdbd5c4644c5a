// SPDX-License-Identifier: Apache-2.0

package main_test

// Subflows of Multipath TCP from end to end, with the kernel's at both hosts (RFC 8684). The two locators of each site
// are its IPv4 and its IPv6 RLOC.

import (
	"context"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"loci/daemon/api"
	"loci/lisp"
)

// TestSubflowsOfMPTCP: each subflow has a locator of its own at both ITRs, in both directions of one session, and what
// is sent arrives. A crash of the router leaves the bindings.
func TestSubflowsOfMPTCP(t *testing.T) {
	if _, err := os.Stat("/proc/sys/net/mptcp/enabled"); err != nil {
		t.Skipf("this kernel has no Multipath TCP: %v", err)
	}
	t.Parallel() // it mostly waits
	for _, engine := range []string{"kernel", "user"} {
		t.Run(engine, func(t *testing.T) {
			n := newLISPNetwork(t)
			n.engine = engine
			n.run("ms", n.mappingSystem())
			bindings, why := []string{"stateless", "stateless"},
				"the first subflow of its session gets the best path"
			if engine == "kernel" { // one asks the other one, which chooses for itself
				bindings[0], why = "stateful", "chose it when it was asked"
			}
			for number, name := range []string{"xtr1", "xtr2"} {
				n.run(name, strings.Replace(n.xtr(number+1), "itr: {",
					"itr: {mptcp: {binding: "+bindings[number]+"}, ", 1))
			}
			n.awaitRegistrations(4)
			n.ping("host1", testSite{1}.host4(), testSite{2}.host4(), 3)
			conn := n.multipath("host1", "host2", testSite{1}.host4(), testSite{2}.host4())
			transfer(t, conn)
			var first map[string]string
			for _, name := range []string{"xtr1", "xtr2"} {
				n.await("two subflows of one session at "+name, func(context.Context) bool {
					first = n.subflows(name)
					return len(first) == 2
				})
			}
			var answered []api.AnsweredSubflow
			n.show("xtr2", &answered, "answered-subflows")
			if want := map[string]int{"stateful": 2}[bindings[0]]; len(answered) != want {
				t.Errorf("xtr2 chose paths of %v, want %d", answered, want)
			}
			if engine == "kernel" {
				n.kill("xtr2")
				n.start("xtr2")
				if again := n.subflows("xtr2"); !maps.Equal(again, first) {
					t.Errorf("bindings after a crash: %v, before %v", again, first)
				}
			}
			transfer(t, conn)
			out, _ := n.loci("xtr1", "explain", testSite{2}.host4().String(), "--from",
				testSite{1}.host4().String(), "--protocol", "tcp",
				"--source-port", strconv.Itoa(int(conn.source.Port())), "--destination-port",
				strconv.Itoa(int(conn.destination.Port())),
				"--socket", n.socket("xtr1"))
			if !strings.Contains(out, why) {
				t.Errorf("explain: %s", out)
			}
		})
	}
}

// subflows are the RLOCs to which subflows are bound, with their flows. Those of one session that have the same are no
// answer yet.
func (n *lispNetwork) subflows(name string) map[string]string {
	var list []api.Subflow
	n.show(name, &list, "subflows")
	flows := map[string]string{}
	for _, s := range list {
		if s.RLOC != nil {
			flows[s.RLOC.String()] = lisp.Flow{Source: s.Source, Destination: s.Destination,
				SourcePort: s.SourcePort, DestinationPort: s.DestinationPort}.String()
		}
	}
	return flows
}

// multipathConn is a connection of Multipath TCP with both of its ends.
type multipathConn struct {
	client, server      net.Conn
	source, destination netip.AddrPort
}

// multipath connects hosts whose kernels make a second subflow, to another port of the server.
func (n *lispNetwork) multipath(client, server string, source, destination netip.Addr) multipathConn {
	n.t.Helper()
	for _, host := range []string{client, server} {
		n.command(host, "ip", "mptcp", "limits", "set", "subflow", "4", "add_addr_accepted", "4")
	}
	n.command(server, "ip", "mptcp", "endpoint", "add", destination.String(), "port", "5555", "signal")
	var listener net.Listener
	n.must(n.at[server].Do(func() (err error) {
		c := net.ListenConfig{}
		c.SetMultipathTCP(true)
		listener, err = c.Listen(n.t.Context(), "tcp", netip.AddrPortFrom(destination, 5000).String())
		return err
	}))
	n.t.Cleanup(func() { listener.Close() })
	conn := multipathConn{}
	n.must(n.at[client].Do(func() (err error) {
		d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0))}
		d.SetMultipathTCP(true)
		conn.client, err = d.DialContext(n.t.Context(), "tcp", listener.Addr().String())
		return err
	}))
	n.t.Cleanup(func() { conn.client.Close() })
	var err error
	conn.server, err = listener.Accept()
	n.must(err)
	n.t.Cleanup(func() { conn.server.Close() })
	conn.source, conn.destination = netip.MustParseAddrPort(conn.client.LocalAddr().String()),
		netip.MustParseAddrPort(conn.client.RemoteAddr().String())
	if is, err := conn.client.(*net.TCPConn).MultipathTCP(); !is {
		n.t.Fatalf("a connection without Multipath TCP: %v", err)
	}
	return conn
}

// command runs a program at a host.
func (n *lispNetwork) command(host string, arguments ...string) {
	n.t.Helper()
	cmd := exec.Command(arguments[0], arguments[1:]...)
	n.must(n.at[host].Start(cmd))
	n.must(cmd.Wait())
}

// transfer sends a megabyte each way.
func transfer(t *testing.T, c multipathConn) {
	t.Helper()
	const octets, transferTime = 1 << 20, 30 * time.Second
	send := func(from, to net.Conn) {
		for _, end := range []net.Conn{from, to} {
			if err := end.SetDeadline(time.Now().Add(transferTime)); err != nil {
				t.Fatal(err)
			}
		}
		go func() { _, _ = from.Write(make([]byte, octets)) }()
		if n, err := io.ReadFull(to, make([]byte, octets)); err != nil {
			t.Fatalf("%d octets arrived: %v", n, err)
		}
	}
	send(c.client, c.server)
	send(c.server, c.client)
}
