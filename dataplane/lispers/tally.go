// SPDX-License-Identifier: Apache-2.0

package lispers

// What both ends count of the interface itself, and the limiter of discoveries. The
// names are those of docs/lispers-interface.md. Nothing here logs.

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"loci/lisp"
)

// counter is one of the interface's counters.
type counter int

const (
	messagesReceived counter = iota
	messagesSent
	messagesUnsent
	messagesTooLong
	messagesMalformed
	messagesUnknown
	messagesUnexpected
	fieldsRefused
	multicastRefused
	eidsUnsupported
	restarts
	peersCame
	peersLost
	discoveries
	discoveriesLimited
	mappingsWithheldForKeys
	operationsFailed
	statisticsUnknown
	keysRefused
	settingsNotTold
	counterCount
)

var counterNames = [counterCount]string{
	messagesReceived:        "lispers_messages_received",
	messagesSent:            "lispers_messages_sent",
	messagesUnsent:          "lispers_messages_unsent",
	messagesTooLong:         "lispers_messages_too_long",
	messagesMalformed:       "lispers_messages_malformed",
	messagesUnknown:         "lispers_messages_unknown",
	messagesUnexpected:      "lispers_messages_unexpected",
	fieldsRefused:           "lispers_fields_refused",
	multicastRefused:        "lispers_multicast_refused",
	eidsUnsupported:         "lispers_eids_unsupported",
	restarts:                "lispers_restarts",
	peersCame:               "lispers_peers_came",
	peersLost:               "lispers_peers_lost",
	discoveries:             "lispers_discoveries",
	discoveriesLimited:      "lispers_discoveries_limited",
	mappingsWithheldForKeys: "lispers_mappings_withheld_for_keys",
	operationsFailed:        "lispers_operations_failed",
	statisticsUnknown:       "lispers_statistics_unknown",
	keysRefused:             "lispers_keys_refused",
	settingsNotTold:         "lispers_settings_not_told",
}

// tally counts; it needs no lock.
type tally [counterCount]atomic.Uint64

func (t *tally) add(c counter)            { t[c].Add(1) }
func (t *tally) value(c counter) uint64   { return t[c].Load() }
func (t *tally) into(m map[string]uint64) { t.each(func(name string, n uint64) { m[name] = n }) }
func (t *tally) each(do func(string, uint64)) {
	for c, name := range counterNames {
		do(name, t[c].Load())
	}
}

// refused counts a message, or an entry of one, by why it was not taken.
func (t *tally) refused(err error) {
	switch {
	case errors.Is(err, errTooLong):
		t.add(messagesTooLong)
	case errors.Is(err, errNotJSON):
		t.add(messagesMalformed)
	case errors.Is(err, errUnknownType):
		t.add(messagesUnknown)
	case errors.Is(err, errMulticast):
		t.add(multicastRefused)
	case errors.Is(err, errOtherEID):
		t.add(eidsUnsupported)
	default:
		t.add(fieldsRefused)
	}
}

const (
	discoveryInterval = time.Second
	// maxLimited bounds the destinations that the limiter remembers. Beyond it no
	// discovery is let through until old ones are forgotten: under a flood the bound
	// holds and the rate too.
	maxLimited = 1 << 14
)

// destination is what discoveries are limited by.
type destination struct {
	instance lisp.InstanceID
	eid      lisp.EID
}

// limiter lets one discovery a second through for each destination EID.
type limiter struct {
	mu      sync.Mutex
	passed  map[destination]time.Time
	cleared time.Time
}

func (l *limiter) allow(now time.Time, to destination) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last, ok := l.passed[to]; ok && now.Sub(last) < discoveryInterval {
		return false
	}
	if l.passed == nil {
		l.passed = map[destination]time.Time{}
	}
	if len(l.passed) >= maxLimited && !l.forget(now) {
		return false
	}
	l.passed[to] = now
	return true
}

// forget drops what limits nothing any more, at most once an interval, and reports
// whether there is room.
func (l *limiter) forget(now time.Time) bool {
	if now.Sub(l.cleared) < discoveryInterval {
		return false
	}
	l.cleared = now
	for to, last := range l.passed {
		if now.Sub(last) >= discoveryInterval {
			delete(l.passed, to)
		}
	}
	return len(l.passed) < maxLimited
}
