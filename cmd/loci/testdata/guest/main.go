// SPDX-License-Identifier: Apache-2.0

// Command guest is the first process of an emulated machine that is a router: it mounts what a system has, gives the interfaces to the
// core and to the site their names and addresses, and runs /bin/loci with /etc/loci.yaml. It prints what `loci show status` says once
// the router is ready. emulated_test.go builds and boots it.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "guest: this is for the first process of an emulated machine")
		os.Exit(2)
	}
	fmt.Println("guest: ended:", run())
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART) // the emulator ends
}

func run() error {
	if err := errors.Join(mount(), settings(), links()); err != nil {
		return err
	}
	loci := exec.Command("/bin/loci", "run", "--config", "/etc/loci.yaml")
	loci.Stdout, loci.Stderr = os.Stdout, os.Stdout
	if err := loci.Start(); err != nil {
		return err
	}
	go tellStatus()
	return loci.Wait()
}

func mount() error {
	var errs []error
	for _, m := range [][2]string{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/run"}, {"tmpfs", "/tmp"}} {
		if err := errors.Join(os.MkdirAll(m[1], 0o755), unix.Mount(m[0], m[1], m[0], 0, "")); err != nil {
			errs = append(errs, fmt.Errorf("mount %s: %w", m[1], err))
		}
	}
	return errors.Join(errs...)
}

func settings() error {
	var errs []error
	for _, name := range []string{"ipv4/ip_forward", "ipv6/conf/all/forwarding"} {
		errs = append(errs, os.WriteFile("/proc/sys/net/"+name, []byte("1"), 0))
	}
	return errors.Join(errs...)
}

// links obeys /etc/links: lines of an interface's name, its new name and its addresses, and of "default" and gateways.
func links() error {
	text, err := os.ReadFile("/etc/links")
	if err != nil {
		return err
	}
	for line := range strings.Lines("lo lo\n" + string(text)) {
		words := strings.Fields(line)
		if words[0] == "default" {
			err = routes(words[1:])
		} else {
			err = link(words[0], words[1], words[2:])
		}
		if err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
	}
	return nil
}

func link(name, rename string, addresses []string) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	if name != rename {
		err = netlink.LinkSetName(l, rename)
	}
	for _, text := range addresses {
		address, parseErr := netlink.ParseAddr(text)
		if parseErr != nil {
			return parseErr
		}
		address.Flags = unix.IFA_F_NODAD // in use at once
		err = errors.Join(err, netlink.AddrAdd(l, address))
	}
	return errors.Join(err, netlink.LinkSetUp(l))
}

func routes(gateways []string) (err error) {
	for _, gateway := range gateways {
		address, parseErr := netlink.ParseAddr(gateway + "/32")
		if strings.Contains(gateway, ":") {
			address, parseErr = netlink.ParseAddr(gateway + "/128")
		}
		if parseErr != nil {
			return parseErr
		}
		err = errors.Join(err, netlink.RouteAdd(&netlink.Route{Gw: address.IP}))
	}
	return err
}

func tellStatus() {
	for {
		out, err := exec.Command("/bin/loci", "show", "status", "--json", "--socket", "/run/xtr1.sock").Output()
		if err == nil && bytes.Contains(out, []byte(`"ready": true`)) {
			fmt.Printf("guest: status: %s\n", strings.Join(strings.Fields(string(out)), " "))
			return
		}
		time.Sleep(time.Second)
	}
}
