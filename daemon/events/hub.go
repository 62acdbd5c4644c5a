// SPDX-License-Identifier: Apache-2.0

package events

// The event hub: what the protocol did, for `loci monitor`. A subscriber that
// does not read loses events, which it is told, and never holds anyone up.

import (
	"strconv"
	"sync"

	"loci/daemon/api"
)

const (
	subscriberQueueLength = 1024
	// MaxSubscribers is fewer than the control socket has clients: others have to find a place, too.
	MaxSubscribers = 48
	// historyLength bounds the events that are kept for subscribers who ask for earlier ones: about a megabyte.
	historyLength = 4096
)

// Hub hands each event to every subscriber that wants it, and keeps the last ones.
type Hub struct {
	mu          sync.Mutex
	subscribers map[*Subscriber]struct{}
	history     []api.Event // a ring once it is full
	oldest      int         // in a full ring
}

// Subscriber is a client that gets events.
type Subscriber struct {
	Events  chan api.Event // filled while there is room
	History []api.Event    // those before, as far as it wants them
	wants   api.EventQuery
	lost    int // events since the last one delivered; guarded by hub.mu
}

// NewHub returns a Hub without subscribers.
func NewHub() *Hub { return &Hub{subscribers: map[*Subscriber]struct{}{}} }

// Subscribe returns nil when there are too many subscribers already.
func (h *Hub) Subscribe(wants api.EventQuery) *Subscriber {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.subscribers) >= MaxSubscribers {
		return nil
	}
	s := &Subscriber{Events: make(chan api.Event, subscriberQueueLength), wants: wants}
	if !wants.Since.IsZero() {
		h.recall(s)
	}
	h.subscribers[s] = struct{}{}
	return s
}

// recall gives a subscriber the events that were kept and that it wants, the oldest first.
func (h *Hub) recall(s *Subscriber) {
	for i := range h.history {
		if e := &h.history[(h.oldest+i)%len(h.history)]; !e.At.Before(s.wants.Since) && s.wants.Wants(e) {
			s.History = append(s.History, *e)
		}
	}
}

// Followed reports whether anyone would get an event.
func (h *Hub) Followed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.subscribers) > 0
}

// Unsubscribe ends what Subscribe began.
func (h *Hub) Unsubscribe(s *Subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.subscribers, s)
}

// Publish hands an event to every subscriber that wants it and has room for it.
func (h *Hub) Publish(e api.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keep(e)
	for s := range h.subscribers {
		if s.wants.Wants(&e) {
			s.offer(e)
		}
	}
}

func (h *Hub) keep(e api.Event) {
	if len(h.history) < historyLength {
		h.history = append(h.history, e)
		return
	}
	h.history[h.oldest] = e
	h.oldest = (h.oldest + 1) % historyLength
}

func (s *Subscriber) offer(e api.Event) {
	if s.lost > 0 && !s.push(api.Event{At: e.At, Kind: api.EventsLost, Fields: map[string]string{"count": strconv.Itoa(s.lost)}}) {
		s.lost++
		return
	}
	s.lost = 0
	if !s.push(e) {
		s.lost = 1
	}
}

func (s *Subscriber) push(e api.Event) bool {
	select {
	case s.Events <- e:
		return true
	default:
		return false
	}
}
