// SPDX-License-Identifier: Apache-2.0

package events

import (
	"testing"

	"loci/daemon/api"
)

func TestSlowSubscriberLosesOnlyItsOwn(t *testing.T) {
	h := NewHub()
	slow, quick := h.Subscribe(), h.Subscribe()
	const published = subscriberQueueLength + 10
	for range published {
		h.Publish(api.Event{Kind: "tick"})
		if e := <-quick.Events; e.Kind != "tick" {
			t.Fatalf("the reader that keeps up got %q", e.Kind)
		}
	}
	for range subscriberQueueLength {
		if e := <-slow.Events; e.Kind != "tick" {
			t.Fatalf("got %q", e.Kind)
		}
	}
	h.Publish(api.Event{Kind: "last"})
	if e := <-slow.Events; e.Kind != "events-lost" || e.Fields["count"] != "10" {
		t.Errorf("got %+v, want to be told of 10 lost events", e)
	}
	if e := <-slow.Events; e.Kind != "last" {
		t.Errorf("got %q after the loss", e.Kind)
	}
}

func TestSubscribersAreLimited(t *testing.T) {
	h := NewHub()
	var last *Subscriber
	for range MaxSubscribers {
		last = h.Subscribe()
	}
	if last == nil || h.Subscribe() != nil {
		t.Fatal("the limit is not where it is said to be")
	}
	h.Unsubscribe(last)
	if h.Subscribe() == nil {
		t.Error("the place of one that left stays taken")
	}
}
