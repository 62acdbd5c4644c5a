// SPDX-License-Identifier: Apache-2.0

package daemon

// The event hub: what the protocol did, for `loci monitor`. A subscriber that
// does not read loses events, which it is told, and never holds anyone up.

import (
	"strconv"
	"sync"

	"loci/daemon/api"
)

const (
	subscriberQueueLength = 1024
	maxSubscribers        = 48 // fewer than maxConnections: others have to find a place, too
)

// hub hands each event to every subscriber.
type hub struct {
	mu          sync.Mutex
	subscribers map[*subscriber]struct{}
}

type subscriber struct {
	events chan api.Event
	lost   int // events since the last one delivered; guarded by hub.mu
}

func newHub() *hub { return &hub{subscribers: map[*subscriber]struct{}{}} }

// subscribe returns nil when there are too many subscribers already.
func (h *hub) subscribe() *subscriber {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.subscribers) >= maxSubscribers {
		return nil
	}
	s := &subscriber{events: make(chan api.Event, subscriberQueueLength)}
	h.subscribers[s] = struct{}{}
	return s
}

// followed reports whether anyone would get an event.
func (h *hub) followed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.subscribers) > 0
}

func (h *hub) unsubscribe(s *subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.subscribers, s)
}

func (h *hub) publish(e api.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subscribers {
		s.offer(e)
	}
}

func (s *subscriber) offer(e api.Event) {
	if s.lost > 0 && !s.push(api.Event{At: e.At, Kind: "events-lost", Fields: map[string]string{"count": strconv.Itoa(s.lost)}}) {
		s.lost++
		return
	}
	s.lost = 0
	if !s.push(e) {
		s.lost = 1
	}
}

func (s *subscriber) push(e api.Event) bool {
	select {
	case s.events <- e:
		return true
	default:
		return false
	}
}
