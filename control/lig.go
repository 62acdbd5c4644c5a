// SPDX-License-Identifier: Apache-2.0

package control

// The LISP Internet Groper (RFC 6835): ask a Map-Resolver for one EID and judge
// the answer. Sans-IO like the rest of the package: the caller sends what Request
// returns, hands in what arrives, and keeps the clock. It keeps no map-cache.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"loci/lisp"
	"loci/wire"
)

// Limits and defaults of RFC 6835 s.4.
const (
	LigMaxCount       = 5
	LigDefaultCount   = 3
	LigMinTimeout     = time.Second
	LigMaxTimeout     = 5 * time.Second
	LigDefaultTimeout = 2 * time.Second
)

// LigQuery is one question.
type LigQuery struct {
	Instance lisp.InstanceID
	EID      lisp.EID       // asked for
	Source   lisp.EID       // source EID of the request, zero for none
	Resolver netip.AddrPort // Map-Resolver
	Local    netip.AddrPort // address and port where the answer shall arrive
}

// Lig asks one query, several times if need be.
type Lig struct {
	query  LigQuery
	random func([]byte)
	sent   map[uint64]time.Time // by nonce; at most LigMaxCount
}

// LigAnswer is what a Map-Reply said.
type LigAnswer struct {
	From          netip.AddrPort
	RoundTripTime time.Duration
	Mappings      []lisp.Mapping
	EchoNonce     bool
}

// NewLig checks a query.
func NewLig(q LigQuery, random func([]byte)) (*Lig, error) {
	switch {
	case q.EID.IsZero():
		return nil, errors.New("no EID to ask for")
	case !q.Source.IsZero() && q.Source.Kind() != q.EID.Kind():
		return nil, fmt.Errorf("source EID %s and EID %s are not of one family", q.Source, q.EID)
	case !q.EID.IsIP():
		// The inner destination of the request is the EID itself (RFC 9301 s.5.8).
		return nil, fmt.Errorf("EID %s: only IPv4 and IPv6 EIDs can be asked for through a Map-Resolver", q.EID)
	}
	return &Lig{query: q, random: random, sent: map[uint64]time.Time{}}, nil
}

// Request returns the next Map-Request, encapsulated for the Map-Resolver, with a
// fresh nonce. It fails after LigMaxCount of them.
func (l *Lig) Request(now time.Time) ([]byte, error) {
	message, err := l.next(now, false)
	if err != nil {
		return nil, err
	}
	return wire.AppendECM(nil, l.innerSource(), netip.AddrPortFrom(l.query.EID.Addr(), wire.ControlPort), message)
}

// Probe returns the next Map-Request as an RLOC-probe (RFC 9301 s.7.1), to be sent to a locator of the EID itself.
func (l *Lig) Probe(now time.Time) ([]byte, error) { return l.next(now, true) }

func (l *Lig) next(now time.Time, probe bool) ([]byte, error) {
	if len(l.sent) >= LigMaxCount {
		return nil, fmt.Errorf("asked %d times already", LigMaxCount)
	}
	var octets [8]byte
	l.random(octets[:])
	nonce := binary.BigEndian.Uint64(octets[:])
	request := wire.MapRequest{Nonce: nonce, Probe: probe}
	request.Ask(l.query.Source, []lisp.RLOC{lisp.RLOCFromAddr(l.query.Local.Addr())}, lisp.HostPrefix(l.query.Instance, l.query.EID))
	message, err := request.AppendTo(nil)
	if err == nil {
		l.sent[nonce] = now
	}
	return message, err
}

// innerSource is the asker's address, or one of the EID's family with the same
// port when the RLOC has the other family: the inner header has one family only.
func (l *Lig) innerSource() netip.AddrPort {
	local := l.query.Local
	switch {
	case local.Addr().Is4() == l.query.EID.Addr().Is4():
		return local
	case !l.query.Source.IsZero():
		return netip.AddrPortFrom(l.query.Source.Addr(), local.Port())
	case l.query.EID.Addr().Is4():
		return netip.AddrPortFrom(netip.IPv4Unspecified(), local.Port())
	}
	return netip.AddrPortFrom(netip.IPv6Unspecified(), local.Port())
}

// Handle judges a datagram; ok is false when it answers none of our requests.
// The error tells why a datagram that does was of no use.
func (l *Lig) Handle(now time.Time, from netip.AddrPort, b []byte) (answer LigAnswer, ok bool, err error) {
	message, err := wire.Parse(b)
	if err != nil {
		return LigAnswer{}, false, fmt.Errorf("from %s: %w", from, err)
	}
	reply, isReply := message.(*wire.MapReply)
	if !isReply {
		return LigAnswer{}, false, fmt.Errorf("from %s: a %s instead of a Map-Reply", from, message.Type())
	}
	sentAt, asked := l.sent[reply.Nonce]
	if !asked {
		return LigAnswer{}, false, fmt.Errorf("from %s: a Map-Reply with an unknown nonce", from)
	}
	answer = LigAnswer{From: from, RoundTripTime: now.Sub(sentAt), EchoNonce: reply.EchoNonce}
	for i := range reply.Records {
		mapping, err := reply.Records[i].Mapping()
		if err != nil {
			return LigAnswer{}, true, fmt.Errorf("from %s: record %d: %w", from, i+1, err)
		}
		answer.Mappings = append(answer.Mappings, mapping)
	}
	return answer, true, nil
}
