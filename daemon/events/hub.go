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
)

// Hub hands each event to every subscriber.
type Hub struct {
	mu          sync.Mutex
	subscribers map[*Subscriber]struct{}
}

// Subscriber is a client that gets events.
type Subscriber struct {
	Events chan api.Event // filled while there is room
	lost   int            // events since the last one delivered; guarded by hub.mu
}

// NewHub returns a Hub without subscribers.
func NewHub() *Hub { return &Hub{subscribers: map[*Subscriber]struct{}{}} }

// Subscribe returns nil when there are too many subscribers already.
func (h *Hub) Subscribe() *Subscriber {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.subscribers) >= MaxSubscribers {
		return nil
	}
	s := &Subscriber{Events: make(chan api.Event, subscriberQueueLength)}
	h.subscribers[s] = struct{}{}
	return s
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

// Publish hands an event to every subscriber that has room for it.
func (h *Hub) Publish(e api.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subscribers {
		s.offer(e)
	}
}

func (s *Subscriber) offer(e api.Event) {
	if s.lost > 0 && !s.push(api.Event{At: e.At, Kind: "events-lost", Fields: map[string]string{"count": strconv.Itoa(s.lost)}}) {
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
