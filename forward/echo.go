// SPDX-License-Identifier: Apache-2.0

package forward

// Echo-Nonce (RFC 9300 s.10.1): the state towards one RLOC, on both sides of it. It
// tells that a path works while packets go both ways, and that it may not when they
// come without the echo. Nothing here decides that a locator is down.

import "time"

// EchoOwed is how long an echo is owed.
const EchoOwed = time.Minute

// EchoTimes are how long an ITR waits for an echo while packets come from the
// locator, and how long after an echo it asks again.
type EchoTimes struct{ Wait, Interval time.Duration }

// Echo is the state towards one RLOC. The zero value owes and asks nothing.
type Echo struct {
	Owed        uint32
	OwedAt      time.Time // zero: nothing is owed
	Requested   uint32
	RequestedAt time.Time // when the Echo-Nonce-request state began; zero: not in it
	NextAt      time.Time // not in it again before
	EchoedAt    time.Time // the last echo that came back
}

// EchoNews is what a packet from an RLOC meant.
type EchoNews uint8

// The news.
const (
	EchoNothing  EchoNews = iota
	EchoReturned          // the nonce that was asked for came back
	EchoMissing           // packets come, the echo does not
)

// Send returns the nonce of a packet to the RLOC, and its E bit. nonce is random; it
// is sent where there is no reason for another. asks says that the RLOC's ETR
// echoes. An echo that is owed comes first: its receiver waits.
func (e *Echo) Send(now time.Time, nonce uint32, asks bool) (sent uint32, request, echo bool) {
	switch {
	case !e.OwedAt.IsZero() && now.Sub(e.OwedAt) < EchoOwed:
		e.OwedAt = time.Time{}
		return e.Owed, false, true
	case !asks, e.RequestedAt.IsZero() && now.Before(e.NextAt):
		return nonce, false, false
	case e.RequestedAt.IsZero():
		e.Requested, e.RequestedAt = nonce, now
	}
	return e.Requested, true, false
}

// Receive takes in what a packet from the RLOC says: a nonce where present, and its
// E bit. When both sides ask at once, each gives up and asks again after a time that
// the nonce makes different.
func (e *Echo) Receive(now time.Time, nonce uint32, present, request bool, times EchoTimes) EchoNews {
	if present && request {
		e.Owed, e.OwedAt = nonce, now
		if !e.RequestedAt.IsZero() {
			e.RequestedAt = time.Time{}
			e.NextAt = now.Add(times.Wait + times.Wait>>8*time.Duration(nonce&0xff))
		}
		return EchoNothing
	}
	switch {
	case e.RequestedAt.IsZero():
		return EchoNothing
	case present && nonce == e.Requested:
		e.RequestedAt, e.EchoedAt, e.NextAt = time.Time{}, now, now.Add(times.Interval)
		return EchoReturned
	case now.Sub(e.RequestedAt) < times.Wait:
		return EchoNothing
	}
	e.RequestedAt, e.NextAt = time.Time{}, now.Add(times.Wait)
	return EchoMissing
}
