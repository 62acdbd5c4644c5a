// SPDX-License-Identifier: Apache-2.0

// Echo requests of both families (RFC 792, RFC 4443 s.4), one after another at a steady interval.
// It never sends more than maxPings, and never faster than minPingInterval: it measures a path, it does not flood it.

package testnet

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

const (
	maxPings        = 100_000
	minPingInterval = 100 * time.Microsecond
	minPingOctets   = 16               // a token and a sequence number
	defaultTimeout  = 10 * time.Second // of a machine that has much else to do
)

// Ping says which echo requests to send.
type Ping struct {
	Namespace   *Namespace
	Source      netip.Addr // the zero value lets the kernel choose
	Destination netip.Addr
	Count       int           // 0 means 1
	Interval    time.Duration // between two requests; 0 means 10 ms
	Timeout     time.Duration // how long to wait for replies after the last request; 0 means 10 s
	Octets      int           // of payload; 0 means 56
}

// PingResult is what came back.
type PingResult struct {
	Sent       int
	Received   int // requests that were answered, each counted once
	Duplicates int // further answers to the same request
	Refused    int // requests that this host's kernel refused to send, for example without a route; not in Sent
	Start      time.Time
	// RoundTrips holds one duration for each request, by its place; negative when no answer came.
	RoundTrips []time.Duration
}

// First returns how long the first request took to be answered, and whether it was.
func (r PingResult) First() (time.Duration, bool) {
	if len(r.RoundTrips) == 0 || r.RoundTrips[0] < 0 {
		return 0, false
	}
	return r.RoundTrips[0], true
}

// Lost returns the number of requests without an answer.
func (r PingResult) Lost() int { return r.Sent - r.Received }

// pingCount gives every run its own identifier beside the process id.
var pingCount atomic.Uint32

// Run sends the requests and collects the answers. An error means that the sockets failed or ctx ended, not that answers
// are missing; the result is filled as far as it went.
func (p Ping) Run(ctx context.Context) (PingResult, error) {
	p, err := p.withDefaults()
	if err != nil {
		return PingResult{}, err
	}
	run := &pingRun{Ping: p, id: uint16(os.Getpid())<<5 ^ uint16(pingCount.Add(1))}
	run.token = uint64(time.Now().UnixNano())
	if err := p.Namespace.Do(run.open); err != nil {
		return PingResult{}, fmt.Errorf("testnet: ping %s from %s: %w", p.Destination, p.Namespace.name, err)
	}
	defer run.conn.Close()
	run.sentAt = make([]atomic.Int64, p.Count)
	run.result = PingResult{Start: time.Now(), RoundTrips: make([]time.Duration, p.Count)}
	for i := range run.result.RoundTrips {
		run.result.RoundTrips[i] = -1
	}
	return run.exchange(ctx)
}

func (p Ping) withDefaults() (Ping, error) {
	if !p.Destination.IsValid() || (p.Source.IsValid() && p.Source.Is4() != p.Destination.Is4()) {
		return p, fmt.Errorf("testnet: ping from %s to %s: two addresses of one family are needed", p.Source, p.Destination)
	}
	if p.Count > maxPings || p.Count < 0 {
		return p, fmt.Errorf("testnet: ping count %d is not in 1…%d", p.Count, maxPings)
	}
	if p.Count == 0 {
		p.Count = 1
	}
	if p.Interval == 0 {
		p.Interval = 10 * time.Millisecond
	}
	p.Interval = max(p.Interval, minPingInterval)
	if p.Timeout == 0 {
		p.Timeout = defaultTimeout
	}
	if p.Octets == 0 {
		p.Octets = 56
	}
	p.Octets = max(p.Octets, minPingOctets)
	return p, nil
}

// pingRun is the state of one Run: one goroutine sends, one receives.
type pingRun struct {
	Ping
	id     uint16
	token  uint64
	conn   net.PacketConn
	sentAt []atomic.Int64 // Unix nanoseconds; 0 is not sent
	result PingResult
}

func (r *pingRun) open() error {
	network, any := "ip4:icmp", "0.0.0.0"
	if r.Destination.Is6() {
		network, any = "ip6:ipv6-icmp", "::"
	}
	if r.Source.IsValid() {
		any = r.Source.String()
	}
	conn, err := net.ListenPacket(network, any)
	if err != nil {
		return err
	}
	r.conn = conn
	if err := enlargeQueue(conn.(*net.IPConn)); err != nil {
		return errors.Join(err, conn.Close())
	}
	return nil
}

type pingSent struct {
	sent, refused int
	err           error
}

func (r *pingRun) exchange(ctx context.Context) (PingResult, error) {
	stop := context.AfterFunc(ctx, func() { r.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	sending := make(chan pingSent, 1)
	go func() {
		s := r.send(ctx)
		if ctx.Err() == nil {
			r.conn.SetReadDeadline(time.Now().Add(r.Timeout))
		}
		sending <- s
	}()
	receiveErr := r.receive()
	s := <-sending
	r.result.Sent, r.result.Refused = s.sent, s.refused
	if err := errors.Join(ctx.Err(), s.err, receiveErr); err != nil {
		return r.result, fmt.Errorf("testnet: ping %s from %s: %w", r.Destination, r.Namespace.name, err)
	}
	return r.result, nil
}

// send keeps to the times of a steady beat, so that one late wake-up does not delay all others.
func (r *pingRun) send(ctx context.Context) pingSent {
	var s pingSent
	begin := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i := range r.Count {
		timer.Reset(time.Until(begin.Add(time.Duration(i) * r.Interval)))
		select {
		case <-ctx.Done():
			return s
		case <-timer.C:
		}
		packet, err := r.request(i)
		if err != nil {
			s.err = err
			return s
		}
		r.sentAt[i].Store(time.Now().UnixNano())
		if _, err := r.conn.WriteTo(packet, &net.IPAddr{IP: r.Destination.AsSlice(), Zone: r.Destination.Zone()}); err != nil {
			s.refused++
			continue
		}
		s.sent++
	}
	return s
}

func (r *pingRun) request(sequence int) ([]byte, error) {
	var kind icmp.Type = ipv4.ICMPTypeEcho
	if r.Destination.Is6() {
		kind = ipv6.ICMPTypeEchoRequest
	}
	payload := make([]byte, r.Octets)
	binary.BigEndian.PutUint64(payload, r.token)
	binary.BigEndian.PutUint64(payload[8:], uint64(sequence))
	for i := minPingOctets; i < len(payload); i++ {
		payload[i] = byte(i)
	}
	message := icmp.Message{Type: kind, Body: &icmp.Echo{ID: int(r.id), Seq: sequence & 0xffff, Data: payload}}
	return message.Marshal(nil) // the kernel fills in the checksum of ICMPv6, which covers the addresses
}

// receive ends at the read deadline, or when every request is answered.
func (r *pingRun) receive() error {
	buffer := make([]byte, 1<<16)
	for r.result.Received < r.Count {
		n, from, err := r.conn.ReadFrom(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return err
		}
		if address, ok := from.(*net.IPAddr); ok && address.IP.Equal(r.Destination.AsSlice()) {
			r.take(buffer[:n], time.Now())
		}
	}
	return nil
}

// take counts an answer when it carries what was sent: identifier, token and payload.
func (r *pingRun) take(packet []byte, now time.Time) {
	protocol := ipv4.ICMPTypeEcho.Protocol()
	if r.Destination.Is6() {
		protocol = ipv6.ICMPTypeEchoRequest.Protocol()
	}
	message, err := icmp.ParseMessage(protocol, packet)
	if err != nil || (message.Type != ipv4.ICMPTypeEchoReply && message.Type != ipv6.ICMPTypeEchoReply) {
		return
	}
	echo, ok := message.Body.(*icmp.Echo)
	if !ok || echo.ID != int(r.id) || len(echo.Data) != r.Octets || binary.BigEndian.Uint64(echo.Data) != r.token {
		return
	}
	sequence := binary.BigEndian.Uint64(echo.Data[8:])
	if sequence >= uint64(r.Count) || r.sentAt[sequence].Load() == 0 {
		return
	}
	if r.result.RoundTrips[sequence] >= 0 {
		r.result.Duplicates++
		return
	}
	r.result.RoundTrips[sequence] = max(0, now.Sub(time.Unix(0, r.sentAt[sequence].Load())))
	r.result.Received++
}
