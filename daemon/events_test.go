// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"testing"

	"loci/daemon/api"
)

func TestSlowSubscriberLosesOnlyItsOwn(t *testing.T) {
	h := newHub()
	slow, quick := h.subscribe(), h.subscribe()
	const published = subscriberQueueLength + 10
	for range published {
		h.publish(api.Event{Kind: "tick"})
		if e := <-quick.events; e.Kind != "tick" {
			t.Fatalf("the reader that keeps up got %q", e.Kind)
		}
	}
	for range subscriberQueueLength {
		if e := <-slow.events; e.Kind != "tick" {
			t.Fatalf("got %q", e.Kind)
		}
	}
	h.publish(api.Event{Kind: "last"})
	if e := <-slow.events; e.Kind != "events-lost" || e.Fields["count"] != "10" {
		t.Errorf("got %+v, want to be told of 10 lost events", e)
	}
	if e := <-slow.events; e.Kind != "last" {
		t.Errorf("got %q after the loss", e.Kind)
	}
}

func TestSubscribersAreLimited(t *testing.T) {
	h := newHub()
	var last *subscriber
	for range maxSubscribers {
		last = h.subscribe()
	}
	if last == nil || h.subscribe() != nil {
		t.Fatal("the limit is not where it is said to be")
	}
	h.unsubscribe(last)
	if h.subscribe() == nil {
		t.Error("the place of one that left stays taken")
	}
}
