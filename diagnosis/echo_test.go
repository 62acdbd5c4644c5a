// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"loci/internal/testnet"
)

// TestWaitsEndWithTheContext: Ctrl-C ends the wait for the next echo request, however long it was to be.
func TestWaitsEndWithTheContext(t *testing.T) {
	testnet.RequireRoot(t)
	for _, loopback := range []string{"127.0.0.1", "::1"} {
		socket, err := openEcho(netip.MustParseAddr(loopback), netip.MustParseAddr(loopback))
		if err != nil {
			t.Fatal(err)
		}
		usual := socket.usualOctets()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- socket.run(ctx, []*echo{{octets: usual}, {octets: usual}}, time.Hour, time.Hour, nil) }()
		time.AfterFunc(100*time.Millisecond, stop) // it most likely waits then
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", loopback, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: the wait does not end", loopback)
		}
		socket.close()
	}
}
