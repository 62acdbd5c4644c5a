// SPDX-License-Identifier: Apache-2.0

package temptcp

// One connection of Multipath TCP, whose client sends all it can.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"loci/internal/testnet"
)

const (
	serverPort  = 5001
	connectWait = 20 * time.Second
	chunkOctets = 256 << 10
)

// connection is one while it lasts.
type connection struct {
	from, to       net.Conn
	began          time.Time // when the client began to connect
	arrived        atomic.Int64
	ended          sync.WaitGroup
	client, server *testnet.Namespace
}

// ends say between what a connection is opened, and how.
type ends struct {
	client, server            *testnet.Namespace
	source, destination       netip.Addr
	sendBuffer, receiveBuffer int
	congestionControl         string
}

// open connects, and begins to send.
func (e ends) open(ctx context.Context) (*connection, error) {
	c := &connection{client: e.client, server: e.server}
	listener, err := e.listen(ctx)
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	c.began = time.Now()
	if c.from, err = e.dial(ctx); err != nil {
		return nil, err
	}
	if err := listener.(*net.TCPListener).SetDeadline(time.Now().Add(connectWait)); err != nil {
		return nil, errors.Join(err, c.from.Close())
	}
	if c.to, err = listener.Accept(); err != nil {
		return nil, errors.Join(err, c.from.Close())
	}
	if err := e.verify(c); err != nil {
		return nil, errors.Join(err, c.to.Close(), c.from.Close())
	}
	c.ended.Go(c.send)
	c.ended.Go(c.receive)
	return c, nil
}

func (e ends) listen(ctx context.Context) (listener net.Listener, err error) {
	config := net.ListenConfig{Control: e.control(unix.SO_RCVBUFFORCE, e.receiveBuffer)}
	config.SetMultipathTCP(true)
	err = e.server.Do(func() (err error) {
		listener, err = config.Listen(ctx, "tcp", netip.AddrPortFrom(e.destination, serverPort).String())
		return err
	})
	return listener, err
}

func (e ends) dial(ctx context.Context) (conn net.Conn, err error) {
	dialer := net.Dialer{Timeout: connectWait, LocalAddr: &net.TCPAddr{IP: e.source.AsSlice()},
		Control: e.control(unix.SO_SNDBUFFORCE, e.sendBuffer)}
	dialer.SetMultipathTCP(true)
	err = e.client.Do(func() (err error) {
		conn, err = dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(e.destination, serverPort).String())
		return err
	})
	return conn, err
}

// control fixes one buffer and the congestion control before the connection begins. What a listener has, its
// connections inherit, and what a connection has, its subflows.
func (e ends) control(buffer, octets int) func(string, string, syscall.RawConn) error {
	return func(_, _ string, raw syscall.RawConn) error {
		var set error
		err := raw.Control(func(fd uintptr) {
			set = errors.Join(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, buffer, octets),
				unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION,
					e.congestionControl))
		})
		return errors.Join(err, set)
	}
}

// verify says what the connection has not, of what it was to have.
func (e ends) verify(c *connection) error {
	for _, conn := range []net.Conn{c.from, c.to} {
		if multipath, err := conn.(*net.TCPConn).MultipathTCP(); err != nil || !multipath {
			return errors.Join(err, errors.New("the connection is no Multipath TCP"))
		}
	}
	raw, err := c.to.(*net.TCPConn).SyscallConn()
	if err != nil {
		return err
	}
	octets := 0
	var asked error
	err = raw.Control(func(fd uintptr) {
		octets, asked = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF)
	})
	if err := errors.Join(err, asked); err != nil {
		return err
	}
	if want := 2 * e.receiveBuffer; octets != want { // the kernel doubles it for its own use
		return fmt.Errorf("the receive buffer has %d octets, want %d", octets, want)
	}
	return nil
}

func (c *connection) send() {
	for chunk := make([]byte, chunkOctets); ; {
		if _, err := c.from.Write(chunk); err != nil {
			return
		}
	}
}

func (c *connection) receive() {
	for chunk := make([]byte, chunkOctets); ; {
		length, err := c.to.Read(chunk)
		c.arrived.Add(int64(length))
		if err != nil {
			return
		}
	}
}

// close ends it at both sides, whatever is under way.
func (c *connection) close() {
	for _, conn := range []net.Conn{c.to, c.from} {
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	}
	c.ended.Wait()
}
