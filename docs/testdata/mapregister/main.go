// SPDX-License-Identifier: Apache-2.0

// Command mapregister is a Map-Server on a loopback address that gets one plain Map-Register, and as many that renew
// it as its argument says. A test builds it so that it counts what is executed. It wants a network namespace of its
// own: both ends have port 4342.
package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"loci/control"
	"loci/daemon/eventloop"
	"loci/daemon/events"
	"loci/daemon/handover"
	"loci/daemon/transport"
	"loci/lisp"
	"loci/wire"
)

const (
	secret = "a secret of the site"
	port   = 4342
	// maxRenewals bounds the argument.
	maxRenewals = 100
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run registers, and renews that.
func run() error {
	renewals, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return err
	}
	var messages [maxRenewals + 1][]byte // all of them, or the sender's work would be counted with the receiver's
	for i := range messages {
		if messages[i], err = register(uint64(i)); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	server, err := serve(ctx)
	if err != nil {
		return err
	}
	site, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 2), Port: port}, server)
	if err != nil {
		return err
	}
	defer site.Close()
	for _, m := range messages[:renewals+1] {
		if err := exchange(site, m); err != nil {
			return err
		}
	}
	return nil
}

// serve has a Map-Server at work, and returns its address.
func serve(ctx context.Context) (*net.UDPAddr, error) {
	log, address := slog.New(slog.DiscardHandler), netip.MustParseAddr("127.0.0.1")
	sockets, err := transport.Listen([]netip.Addr{address}, port, log)
	if err != nil {
		return nil, err
	}
	node, err := control.New(control.Config{
		LocalRLOCs: []lisp.RLOC{lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.100"))},
		MapServer: &control.MapServerConfig{Sites: []control.Site{{
			Name: "site", Keys: []control.Key{{ID: 1, Secret: []byte(secret)}},
			Prefixes: []control.SitePrefix{{Prefix: lisp.MustParsePrefix("10.1.0.0/16"), AcceptMoreSpecifics: true}},
		}}},
	}, time.Now(), func(b []byte) { _, _ = rand.Read(b) })
	if err != nil {
		return nil, err
	}
	sockets.SetKeyring(node.Keyring())
	loop := eventloop.New(eventloop.Parts{
		Node: node, Sockets: sockets, Handed: handover.New(sockets.Queue), Events: events.NewHub(),
		SiblingPath: func(netip.Addr) {}, Log: log,
	})
	go sockets.Run(ctx)
	go loop.Run(ctx)
	return net.UDPAddrFromAddrPort(netip.AddrPortFrom(address, port)), nil
}

// register is a Map-Register of one EID-Prefix with one locator.
func register(nonce uint64) ([]byte, error) {
	locators := lisp.LocatorSet{{RLOC: lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.1")), Priority: 1, Weight: 100, Local: true, Reachable: true}}
	record := wire.RecordOf(lisp.Mapping{Prefix: lisp.MustParsePrefix("10.1.2.0/24"), TTLMinutes: 1440, Locators: locators})
	return wire.AppendSigned(nil, &wire.MapRegister{
		WantMapNotify: true, XTRIDPresent: true, XTRID: [16]byte{1}, Nonce: 1 + nonce, KeyID: 1, AlgorithmID: 3,
		Authentication: make([]byte, 32), Records: []wire.Record{record},
	}, []byte(secret))
}

// exchange sends a Map-Register and waits for its Map-Notify.
func exchange(site *net.UDPConn, payload []byte) error {
	if _, err := site.Write(payload); err != nil {
		return err
	}
	if err := site.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	answer := make([]byte, 1500)
	n, err := site.Read(answer)
	if err != nil {
		return err
	}
	if m, err := wire.Parse(answer[:n]); err != nil || m.Type() != wire.TypeMapNotify {
		return fmt.Errorf("no Map-Notify: %v, %w", m, err)
	}
	return nil
}
