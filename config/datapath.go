// SPDX-License-Identifier: Apache-2.0

package config

// The checks of sections datapath and control: paths, the sockets, and features that only trusted
// networks may use. A BPF file system (the pin directory) holds no names with dots.

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"loci/config/codec"
	"loci/config/source"
	"loci/lisp"
)

func validateLispers(c *Config) {
	l := c.Datapath.Lispers
	if l == nil {
		return
	}
	if !filepath.IsAbs(l.Directory) {
		c.fail("datapath.lispers.directory", fmt.Sprintf("directory: %q is not an absolute path", l.Directory), "want a path that begins with /")
	}
	if l.NoLocators != nil && *l.NoLocators != lisp.ActionDrop && *l.NoLocators != lisp.ActionNativelyForward {
		c.fail("datapath.lispers.no-locators", fmt.Sprintf("no-locators: %s is not a choice here", l.NoLocators), "want drop or natively-forward")
	}
}

// validateDataHeader refuses what must not be used outside of trusted networks.
func validateDataHeader(c *Config) {
	h := c.Datapath.DataHeader
	for _, feature := range []struct {
		key, section string
		on           bool
	}{
		{"locator-status-bits", "RFC 9300 s.10", h.StatusBits},
		{"map-versions", "RFC 9302 s.8", h.MapVersions},
		{"echo-nonce", "RFC 9300 s.10.1", h.EchoNonce},
	} {
		if feature.on && c.PublicInternet {
			c.fail("datapath.data-header."+feature.key, feature.key+": must not be used over the public Internet ("+feature.section+")",
				"leave it out, or public-internet")
		}
	}
}

// validateMergedBits warns of EID-Prefixes that are merged with what other xTRs register, but list own locators alone, while
// Locator-Status-Bits are sent: those go by place in the merged set, which this router does not know (RFC 9300 s.10).
func validateMergedBits(c *Config) {
	if c.ETR == nil || !c.Datapath.DataHeader.StatusBits {
		return
	}
	for i, m := range c.ETR.MapServers {
		at := slices.IndexFunc(c.ETR.LocalEIDs, func(l LocalEID) bool { return l.Site == m.Site && !namesAnother(c.LocatorsOf(l.RLOCs)) })
		if m.MergeRequest && at >= 0 {
			c.warn(fmt.Sprintf("etr.map-servers[%d].merge-request", i), fmt.Sprintf(
				"merge-request: %s lists locators of this router alone, and locator-status-bits go by place: its bits mean other locators of the merged set",
				c.ETR.LocalEIDs[at].Prefix()), "list there the locators of all xTRs of the site, at each of them, or leave out one of the two keys")
		}
	}
}

// namesAnother reports whether one of these may be another xTR's locator: those of an interface are our own, and so is a single one.
func namesAnother(locators []Locator) bool {
	return len(locators) > 1 && slices.ContainsFunc(locators, func(l Locator) bool { return l.Interface == "" })
}

func validateMappingSocket(c *Config) {
	m := c.Datapath.MappingSocket
	if m == nil {
		return
	}
	if !filepath.IsAbs(m.Path) {
		c.fail("datapath.mapping-socket.path", fmt.Sprintf("path: %q is not an absolute path", m.Path), "want a path that begins with /")
	}
	if len(m.Path) > maxSocketPath {
		c.fail("datapath.mapping-socket.path", fmt.Sprintf("path: the path has %d octets", len(m.Path)), fmt.Sprintf("Linux allows %d for a socket", maxSocketPath))
	}
	if m.Path == c.Control.Socket {
		c.fail("datapath.mapping-socket.path", fmt.Sprintf("path: %s is the control socket", m.Path), "give each a path of its own")
	}
}

func validatePaths(c *Config) {
	for _, p := range []struct{ path, value string }{
		{"control.socket", c.Control.Socket},
		{"datapath.pin-directory", c.Datapath.PinDirectory},
	} {
		if !filepath.IsAbs(p.value) {
			c.fail(p.path, fmt.Sprintf("%s: %q is not an absolute path", source.Label(p.path), p.value), "want a path that begins with /")
		}
	}
	if d := c.StateDirectory(); d != "" && !filepath.IsAbs(d) {
		c.fail("map-server.state-directory", fmt.Sprintf("state-directory: %q is not an absolute path", d), "want a path that begins with /")
	}
	if f := c.NonceFile(); f != "" && !filepath.IsAbs(f) {
		c.fail("etr.nonce-file", fmt.Sprintf("nonce-file: %q is not an absolute path", f), "want a path that begins with /")
	}
	validateMappingSocket(c)
	validateLispers(c)
	validateDataHeader(c)
	validateMergedBits(c)
	if len(c.Control.Socket) > maxSocketPath {
		c.fail("control.socket", fmt.Sprintf("socket: the path has %d octets", len(c.Control.Socket)), fmt.Sprintf("Linux allows %d for a socket", maxSocketPath))
	}
	if err := validInterfaceName(c.Datapath.Interface); err != nil {
		message, hint := codec.SplitError(err)
		c.fail("datapath.interface", "interface: "+message, hint)
	}
	if c.Datapath.Interface == loopback {
		c.fail("datapath.interface", "interface: lo is the loopback interface of the system", "want a name that no interface has, loci0 for example")
	}
	validatePins(c)
	validateTUN(c)
	validateRouting(c)
	if c.Control.Port == dataPort {
		c.fail("control.port", "port: 4341 is the port of the data plane", "the control plane's is 4342")
	}
}

const (
	// maxSocketPath is sun_path of Linux without the final NUL.
	maxSocketPath = 107
	dataPort      = 4341
	// loopback is the interface that every network namespace has.
	loopback = "lo"
	// defaultControlPort is the port of control messages (RFC 9301 s.4).
	defaultControlPort = 4342
	// mainRulePriority is the kernel's rule "from all lookup main".
	mainRulePriority = 32766
)

func validateTUN(c *Config) {
	if c.Datapath.TUN != "" && c.Datapath.Engine != EngineUser {
		c.fail("datapath.tun", "tun: a TUN interface is for the data plane in user space", "set datapath.engine to user")
	}
}

func validateLocalAddresses(c *Config) {
	for i, a := range c.Control.Addresses {
		if a.IsMulticast() || a.IsUnspecified() || a.IsLinkLocalUnicast() || a.Zone() != "" || a == broadcast {
			c.fail(fmt.Sprintf("control.addresses[%d]", i), fmt.Sprintf("addresses: %s is not an address to listen at", a), "want addresses of this host; leave the key out for all")
		}
	}
	if at, twice := firstTwice(c.Control.Addresses); twice {
		c.fail(fmt.Sprintf("control.addresses[%d]", at), fmt.Sprintf("addresses: %s stands here twice", c.Control.Addresses[at]), "remove one of the two")
	}
}

func validateMetrics(c *Config) {
	if at, twice := firstTwice(c.Metrics.Listen); twice {
		c.fail(fmt.Sprintf("metrics.listen[%d]", at), fmt.Sprintf("listen: %s stands here twice", c.Metrics.Listen[at]), "remove one of the two")
	}
	for i, a := range c.Metrics.Listen {
		if at := slices.IndexFunc(c.Metrics.Listen[:i], a.Excludes); at >= 0 {
			c.fail(fmt.Sprintf("metrics.listen[%d]", i), fmt.Sprintf("listen: %s and %s exclude each other", a, c.Metrics.Listen[at]), "remove one of the two: 0.0.0.0 and [::] are all addresses of their family")
		}
	}
	if c.Metrics.PerMapping && len(c.Metrics.Listen) == 0 {
		c.warn("metrics.per-mapping", "per-mapping: no metrics are served", "add listen to metrics")
	}
}

// validateGluedPorts warns of IPv6 addresses whose last group reads like a port of LISP:
// 2001:db8::1:4342 is an address as it stands.
func validateGluedPorts(c *Config) {
	ports := []uint16{dataPort, defaultControlPort, c.Control.Port}
	for _, a := range c.addresses {
		if !a.Is6() {
			continue
		}
		octets := a.As16()
		last := strconv.FormatUint(uint64(octets[14])<<8|uint64(octets[15]), 16)
		for _, port := range ports {
			if last == strconv.Itoa(int(port)) {
				c.warn(a.Path, fmt.Sprintf("%s: %s is an address without a port: %s is its last group", source.Label(a.Path), a, last),
					"an IPv6 address with a port is written [ADDRESS]:PORT")
				break
			}
		}
	}
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// reservedTables are default, main and local.
var reservedTables = []uint32{253, 254, 255}

// usualBPFFileSystem is where Linux has it.
const usualBPFFileSystem = "/sys/fs/bpf/"

func validatePins(c *Config) {
	pins := filepath.Clean(c.Datapath.PinDirectory)
	if below, ok := strings.CutPrefix(pins, usualBPFFileSystem); ok && strings.Contains(below, ".") {
		c.fail("datapath.pin-directory", fmt.Sprintf("pin-directory: %s has a dot in a name, which BPF file systems refuse", pins), "want letters, digits, - and _")
	}
	paths := []struct{ path, value string }{
		{"control.socket", c.Control.Socket},
		{"map-server.state-directory", c.StateDirectory()},
		{"etr.nonce-file", c.NonceFile()},
	}
	if m := c.Datapath.MappingSocket; m != nil {
		paths = append(paths, struct{ path, value string }{"datapath.mapping-socket.path", m.Path})
	}
	if l := c.Datapath.Lispers; l != nil {
		paths = append(paths, struct{ path, value string }{"datapath.lispers.directory", l.Directory})
	}
	for _, p := range paths {
		value := filepath.Clean(p.value) + "/"
		if p.value != "" && (strings.HasPrefix(value, pins+"/") || strings.HasPrefix(value, usualBPFFileSystem)) {
			c.fail(p.path, fmt.Sprintf("%s: %s is in a BPF file system, which holds no files and no sockets", source.Label(p.path), p.value), "want another directory, below /run or /var/lib for example")
		}
	}
}
