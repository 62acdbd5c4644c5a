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
	AskedAt     time.Time // when an echo was last asked for
	EchoedAt    time.Time // the last echo that came back
	MissingAt   time.Time // when packets last came without it for too long

	returned  uint32 // the last nonce echoed
	suspended bool   // gave up its state once since the last echo came or stayed away
	askedLast bool   // the last packet asked, though an echo was owed
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
	asks = asks && !(e.RequestedAt.IsZero() && now.Before(e.NextAt))
	if e.owes(now, asks) {
		e.OwedAt, e.returned, e.askedLast = time.Time{}, e.Owed, false
		return e.Owed, false, true
	}
	if !asks {
		return nonce, false, false
	}
	e.askedLast = true
	if e.RequestedAt.IsZero() {
		e.Requested, e.RequestedAt, e.AskedAt = nonce, now, now
	}
	return e.Requested, true, false
}

// owes reports whether an echo is owed, and the next packet is to bring it. The caller who keeps
// asking for what he was sent already may get nothing from here, which is what our own
// request finds out: the two take turns.
func (e *Echo) owes(now time.Time, due bool) bool {
	if e.OwedAt.IsZero() || now.Sub(e.OwedAt) >= EchoOwed {
		return false
	}
	return !due || e.Owed != e.returned || e.askedLast
}

// Receive takes in what a packet from the RLOC says: a nonce where present, and its
// E bit. When both sides ask at once, each gives up and asks again after a time that
// the nonce makes different; then it stays with it: the other one may be asking because
// nothing of ours arrives there.
func (e *Echo) Receive(now time.Time, nonce uint32, present, request bool, times EchoTimes) EchoNews {
	asked := present && request
	if asked {
		e.Owed, e.OwedAt = nonce, now
		if !e.RequestedAt.IsZero() && !e.suspended {
			e.RequestedAt, e.suspended = time.Time{}, true
			e.NextAt = now.Add(times.Wait + times.Wait>>8*time.Duration(nonce&0xff))
		}
	}
	switch {
	case e.RequestedAt.IsZero():
		return EchoNothing
	case present && !asked && nonce == e.Requested:
		e.RequestedAt, e.EchoedAt, e.NextAt, e.suspended = time.Time{}, now, now.Add(times.Interval), false
		return EchoReturned
	case now.Sub(e.RequestedAt) < times.Wait:
		return EchoNothing
	}
	e.RequestedAt, e.NextAt, e.MissingAt, e.suspended = time.Time{}, now.Add(times.Wait), now, false
	return EchoMissing
}
