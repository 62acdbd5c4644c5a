// SPDX-License-Identifier: Apache-2.0

package user

// The engines of others, with the settings that they ship with, but for encryption where it can be switched off.

import (
	"context"
	"crypto/ecdh"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"loci/lab/bench/testbed"
)

// startOOR runs OpenOverlayRouter as an xTR with a static mapping. Its TUN, routes and rules are its own.
func startOOR(ctx context.Context, b *testbed.Run, s side) error {
	p := pairs["ipv4"]
	configuration := fmt.Sprintf("operating-mode = xTR\ndebug = 1\nmap-resolver = {\n %[1]v\n}\nrloc-probing {\n rloc-probe-interval = 0\n}\n"+
		"static-map-cache {\n eid-prefix = %[2]v\n iid = 0\n rloc-address {\n  address = %[1]v\n  priority = 1\n  weight = 100\n }\n}\n"+
		"database-mapping {\n eid-prefix = %[3]v\n iid = 0\n ttl = 10\n rloc-iface {\n  interface = %[4]s\n  ip_version = 4\n  priority = 1\n  weight = 100\n }\n}\n",
		s.remote(p).Addr(), s.other(p), s.own(p), testbed.CoreLink)
	file := b.Instance.Path(s.at.Role() + ".oor")
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		return err
	}
	path, err := oor.path()
	if err != nil {
		return err
	}
	return startTunnel(ctx, b, s, exec.Command(path, "-d", "1", "-f", file), "lispTun0")
}

// startOpenVPN runs OpenVPN between two addresses, without cipher, authentication or key.
func startOpenVPN(ctx context.Context, b *testbed.Run, s side) error {
	const link = "ovpn"
	p := pairs["ipv4"]
	path, err := openVPN.path()
	if err != nil {
		return err
	}
	cmd := exec.Command(path, "--dev", link, "--dev-type", "tun", "--proto", "udp", "--port", "1194", "--verb", "1",
		"--local", s.local(p).Addr().String(), "--remote", s.remote(p).Addr().String(),
		"--cipher", "none", "--auth", "none", "--ifconfig", tunnelAddress(s.number), tunnelAddress(1-s.number))
	if err := startTunnel(ctx, b, s, cmd, link); err != nil {
		return err
	}
	return s.lead(p, link)
}

// tunnelAddress is an address inside a tunnel that wants some.
func tunnelAddress(number int) string { return fmt.Sprintf("172.30.0.%d", number+1) }

const (
	wireGuardPort      = 51820
	wireGuardDirectory = "/var/run/wireguard"
	wireGuardWait      = 5 * time.Second
)

// startWireGuard runs wireguard-go, which encrypts whatever it is told.
func startWireGuard(ctx context.Context, b *testbed.Run, s side) error {
	p := pairs["ipv4"]
	path, err := wireGuard.path()
	if err != nil {
		return err
	}
	// Its control socket is named after the interface, in a directory for all namespaces.
	link := fmt.Sprintf("wg%d-%d", os.Getpid(), s.number)
	socket := wireGuardDirectory + "/" + link + ".sock"
	cmd := exec.Command(path, "-f", link)
	if err := startTunnel(ctx, b, s, cmd, link); err != nil {
		return err
	}
	settings := wireGuardSettings(s, p)
	for deadline := time.Now().Add(wireGuardWait); ; time.Sleep(testbed.PollInterval) {
		if err = tellWireGuard(socket, settings); err == nil || time.Now().After(deadline) {
			break
		}
	}
	return errors.Join(err, s.lead(p, link))
}

// wireGuardSettings are those of wg(8)'s protocol. The keys are anybody's: nothing is secret here.
func wireGuardSettings(s side, p testbed.Pair) string {
	return fmt.Sprintf("set=1\nprivate_key=%s\nlisten_port=%d\npublic_key=%s\nendpoint=%s:%d\nallowed_ip=%s\n\n",
		hex.EncodeToString(wireGuardKey(s.number).Bytes()), wireGuardPort, hex.EncodeToString(wireGuardKey(1-s.number).PublicKey().Bytes()),
		s.remote(p).Addr(), wireGuardPort, s.other(p))
}

func wireGuardKey(number int) *ecdh.PrivateKey {
	key, err := ecdh.X25519().NewPrivateKey([]byte(strings.Repeat(string(rune('A'+number)), 32)))
	if err != nil {
		panic(err) // 32 octets are a key
	}
	return key
}

func tellWireGuard(socket, settings string) error {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(wireGuardWait)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, settings); err != nil {
		return err
	}
	answer := make([]byte, 256)
	n, err := conn.Read(answer)
	if err == nil && !strings.Contains(string(answer[:n]), "errno=0") {
		err = fmt.Errorf("wireguard-go refuses its settings: %q", answer[:n])
	}
	return err
}
