// SPDX-License-Identifier: Apache-2.0

package underlay

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
)

// TestDatagramsAllocateNothing: to send datagrams and trains and to receive them takes nothing from the heap.
func TestDatagramsAllocateNothing(t *testing.T) {
	for _, host := range []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()} {
		t.Run(host.String(), func(t *testing.T) {
			r := receiverSomewhere(t, host.Is6())
			defer r.Close()
			pool, err := NewPool()
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			s := NewSender(pool, func(r Refused) { t.Errorf("to %v: %v", r.To, r.Err) })
			outer := &Outer{Source: host, To: netip.AddrPortFrom(host, r.Port()), Flow: 7, Marks: Marks{TTL: 9, Class: 2}}
			pieces := [][]byte{make([]byte, 8), make([]byte, 100), make([]byte, 8), make([]byte, 100)}
			found := testing.AllocsPerRun(200, func() {
				outer.Segment = 0
				s.Add(outer, pieces[:2]...)
				outer.Segment = 108
				s.Add(outer, pieces...)
				s.Flush()
				for octets := 0; octets < 3*108; {
					trains, err := r.Await()
					if err != nil {
						t.Fatal(err)
					}
					for i := range trains {
						received := r.Train(i)
						octets += len(received.Payload)
						if received.Marks != outer.Marks || received.To != host {
							t.Fatalf("%+v", received)
						}
					}
				}
			})
			if found > 0 {
				t.Errorf("%g allocations for three datagrams", found)
			}
		})
	}
}

func receiverSomewhere(t *testing.T, six bool) *Receiver {
	t.Helper()
	err := fmt.Errorf("no port")
	for range 20 {
		r, openErr := Receive(six, uint16(20000+rand.IntN(10000)))
		if err = openErr; err == nil {
			return r
		}
	}
	t.Fatal(err)
	return nil
}
