// SPDX-License-Identifier: Apache-2.0

// NAT64 boxes: a router between hosts with IPv6 alone and an Internet of IPv4, by tayga.

package testnet

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
)

// NAT64 gives each host of IPv6 an IPv4 address of Pool, and stands for all of IPv4 with Prefix.
type NAT64 struct {
	Namespace *Namespace // forwards already
	Prefix    netip.Prefix
	Pool      netip.Prefix // its first address is the box's
}

// nat64Link is its interface.
const nat64Link = "nat64"

// tayga is where Debian has it, which the PATH of root may leave out.
const tayga = "/usr/sbin/tayga"

// Start begins to translate, and ends with the test.
func (n NAT64) Start(t TB) {
	t.Helper()
	RequireProgram(t, tayga)
	if err := n.start(t); err != nil {
		t.Fatalf("testnet: NAT64 in %s: %v", n.Namespace.name, err)
	}
}

func (n NAT64) start(t TB) error {
	dir, err := os.MkdirTemp("", "loci-nat64-")
	if err != nil {
		return err
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	file := filepath.Join(dir, "tayga.conf")
	text := fmt.Sprintf("tun-device %s\nipv4-addr %s\nprefix %s\ndynamic-pool %s\ndata-dir %s\n",
		nat64Link, n.Pool.Addr().Next(), n.Prefix, n.Pool, dir)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	if output, err := n.run(file, "--mktun"); err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	if err := n.Namespace.SetUp(nat64Link, true); err != nil {
		return err
	}
	for _, p := range []netip.Prefix{n.Prefix, n.Pool} {
		if err := n.Namespace.AddRoute(Route{Destination: p, Link: nat64Link}); err != nil {
			return err
		}
	}
	running := exec.Command(tayga, "-c", file, "--nodetach")
	if err := n.Namespace.Start(running); err != nil {
		return err
	}
	t.Cleanup(func() {
		_ = running.Process.Kill()
		_ = running.Wait()
	})
	return nil
}

// run runs tayga to its end.
func (n NAT64) run(file, argument string) (output string, err error) {
	var out bytes.Buffer
	command := exec.Command(tayga, "-c", file, argument)
	command.Stdout, command.Stderr = &out, &out
	if err := n.Namespace.Start(command); err != nil {
		return "", err
	}
	err = command.Wait()
	return out.String(), err
}
