// SPDX-License-Identifier: Apache-2.0

package echo

import (
	"net"
	"testing"
	"time"
)

// TestLostMessageIsNoTrip: a message that is lost, and the late answer to another one, time no round trip, nor is
// what was due meanwhile asked at once.
func TestLostMessageIsNoTrip(t *testing.T) {
	t.Parallel() // it mostly waits
	server, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		var kept []byte
		for message := make([]byte, datagramOctets); ; {
			n, from, err := server.ReadFromUDP(message)
			switch {
			case err != nil:
				return
			case message[7] == 2: // its number
				kept = append(kept, message[:n]...)
				continue
			case message[7] == 3:
				_, _ = server.WriteToUDP(kept, from)
			}
			_, _ = server.WriteToUDP(message[:n], from)
		}
	}()
	const interval = time.Second / 2
	times, err := Trips(t.Context(), Question{To: server.LocalAddr().(*net.UDPAddr).AddrPort(), Trips: 1}, interval,
		patience+4*interval)
	if err != nil || len(times) == 0 || len(times) > 4 {
		t.Fatalf("%v, %v", times, err)
	}
	for _, trip := range times {
		if time.Duration(trip) >= patience {
			t.Errorf("a trip of %v", time.Duration(trip))
		}
	}
}
