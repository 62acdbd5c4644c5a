// SPDX-License-Identifier: Apache-2.0

package measured

// Many TCP flows from one node to another, and what arrives in a stretch of time in which all of them send.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"loci/internal/testnet"
	"loci/lab"
)

// transfer says which flows there are, and when they are measured.
type transfer struct {
	client, server *testnet.Namespace
	to             netip.Addr // of the server
	flows          int
	multipath      bool // of Multipath TCP
	settles, lasts time.Duration
}

const (
	transferPort   = 5001
	transferOctets = 64 << 10
	connectWait    = 20 * time.Second
)

// flows are those of a transfer while they run.
type flows struct {
	arrived atomic.Int64 // octets
	mu      sync.Mutex
	open    []io.Closer
	ended   sync.WaitGroup
	closed  bool
}

// keep has close end it, at once if that was before.
func (f *flows) keep(c io.Closer) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		_ = c.Close()
		return false
	}
	f.open = append(f.open, c)
	return true
}

func (f *flows) close() {
	f.mu.Lock()
	f.closed = true
	for _, c := range f.open {
		_ = c.Close()
	}
	f.mu.Unlock()
	f.ended.Wait()
}

// goodput is what arrives of all flows while they are measured, in bit/s.
func (m *measuring) goodput(ctx context.Context, t transfer) (float64, error) {
	f := &flows{}
	defer f.close()
	if err := f.listen(ctx, t); err != nil {
		return 0, err
	}
	if err := f.dial(ctx, t); err != nil {
		return 0, err
	}
	if err := lab.Sleep(ctx, t.settles); err != nil {
		return 0, err
	}
	before, began := f.arrived.Load(), time.Now()
	if err := lab.Sleep(ctx, t.lasts); err != nil {
		return 0, err
	}
	return float64(f.arrived.Load()-before) * 8 / time.Since(began).Seconds(), nil
}

func (f *flows) listen(ctx context.Context, t transfer) error {
	return t.server.Do(func() error {
		listener, err := t.listening().Listen(ctx, "tcp", netip.AddrPortFrom(t.to, transferPort).String())
		if err != nil {
			return err
		}
		f.keep(listener)
		f.ended.Go(func() {
			for {
				conn, err := listener.Accept()
				if err != nil || !f.keep(conn) {
					return
				}
				f.ended.Go(func() { f.receive(conn) })
			}
		})
		return nil
	})
}

func (f *flows) receive(conn net.Conn) {
	buffer := make([]byte, transferOctets)
	for {
		length, err := conn.Read(buffer)
		f.arrived.Add(int64(length))
		if err != nil {
			return
		}
	}
}

// dial opens all flows at once and has them send until they are closed.
func (f *flows) dial(ctx context.Context, t transfer) error {
	errs := make(chan error, t.flows)
	for range t.flows {
		go func() {
			errs <- t.client.Do(func() error {
				dialer := net.Dialer{Timeout: connectWait}
				dialer.SetMultipathTCP(t.multipath)
				conn, err := dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(t.to, transferPort).String())
				if err == nil && f.keep(conn) {
					f.ended.Go(func() { send64(conn) })
				}
				return err
			})
		}()
	}
	var all []error
	for range t.flows {
		all = append(all, <-errs)
	}
	if err := errors.Join(all...); err != nil {
		return fmt.Errorf("open flows to %s: %w", t.to, err)
	}
	return nil
}

func send64(conn net.Conn) {
	for buffer := make([]byte, transferOctets); ; {
		if _, err := conn.Write(buffer); err != nil {
			return
		}
	}
}

func (t *transfer) listening() *net.ListenConfig {
	config := &net.ListenConfig{}
	config.SetMultipathTCP(t.multipath)
	return config
}
