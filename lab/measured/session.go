// SPDX-License-Identifier: Apache-2.0

package measured

// One TCP connection that sends a little all the time, and whether all of it arrived.

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"loci/internal/testnet"
)

const (
	sessionRecord   = 1000 // octets, which begin with their number
	sessionInterval = 50 * time.Millisecond
	sessionEnd      = 30 * time.Second // that the last records may take
)

// session is a connection that was opened, and sends until it is ended.
type session struct {
	stop     chan struct{}
	once     sync.Once
	sent     chan result
	received chan result
}

type result struct {
	records uint64
	err     error
}

// openSession connects a client to an address of a server, and begins to send from the server.
func openSession(ctx context.Context, client, server *testnet.Namespace, to netip.Addr) (*session, error) {
	s := &session{stop: make(chan struct{}), sent: make(chan result, 1), received: make(chan result, 1)}
	var listener net.Listener
	var from, into net.Conn
	err := server.Do(func() (err error) {
		listener, err = (&transfer{}).listening().Listen(ctx, "tcp",
			netip.AddrPortFrom(to, transferPort).String())
		return err
	})
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	err = client.Do(func() (err error) {
		dialer := net.Dialer{Timeout: connectWait}
		dialer.SetMultipathTCP(false)
		into, err = dialer.DialContext(ctx, "tcp", listener.Addr().String())
		return err
	})
	if err != nil {
		return nil, err
	}
	if from, err = listener.Accept(); err != nil {
		return nil, errors.Join(err, into.Close())
	}
	go func() { s.sent <- s.send(from) }()
	go func() { s.received <- receiveRecords(into) }()
	return s, nil
}

// send writes a record at each interval, and closes its side when it is ended.
func (s *session) send(conn net.Conn) (r result) {
	defer conn.Close()
	record := make([]byte, sessionRecord)
	ticker := time.NewTicker(sessionInterval)
	defer ticker.Stop()
	for {
		select {
		case <-s.stop:
			r.err = conn.(*net.TCPConn).CloseWrite()
			_, err := io.Copy(io.Discard, conn) // until the other side has read everything
			r.err = errors.Join(r.err, err)
			return r
		case <-ticker.C:
		}
		binary.BigEndian.PutUint64(record, r.records)
		if _, err := conn.Write(record); err != nil {
			r.err = err
			return r
		}
		r.records++
	}
}

func receiveRecords(conn net.Conn) (r result) {
	defer conn.Close()
	for record := make([]byte, sessionRecord); ; r.records++ {
		if _, err := io.ReadFull(conn, record); errors.Is(err, io.EOF) {
			return r
		} else if err != nil {
			r.err = err
			return r
		}
		if got := binary.BigEndian.Uint64(record); got != r.records {
			r.err = fmt.Errorf("record %d arrived as the %dth", got, r.records)
			return r
		}
	}
}

// end stops the sender and returns how many records arrived. An error says that the connection broke, or that some
// are missing.
func (s *session) end() (records uint64, err error) {
	s.once.Do(func() { close(s.stop) })
	timeout := time.After(sessionEnd)
	var sent, received result
	for range 2 {
		select {
		case sent = <-s.sent:
		case received = <-s.received:
		case <-timeout:
			return received.records, errors.New("the last records do not arrive")
		}
	}
	if err := errors.Join(sent.err, received.err); err != nil {
		return received.records, err
	}
	if sent.records != received.records {
		return received.records, fmt.Errorf("%d records of %d arrived", received.records, sent.records)
	}
	return received.records, nil
}
