// SPDX-License-Identifier: Apache-2.0

package config

// Every file of examples/ is right, warns of its keys alone, and means what its comments
// say.

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"loci/lisp"
)

const (
	examplesDirectory    = "../examples"
	interoperabilityFile = "../docs/interoperability.md"
)

// examples says of each file what its comments promise.
var examples = map[string]func(c *Config) map[string]bool{
	"xtr.yaml": func(c *Config) map[string]bool {
		return map[string]bool{
			"ITR and ETR":            c.ITR != nil && c.ETR != nil && c.MapServer == nil && c.MapResolver == nil,
			"misses wait":            c.ITR.MissPolicy == MissQueue,
			"algorithm 3":            c.ETR.MapServers[0].Keys[0].Algorithm == AlgorithmHMACSHA256HKDF,
			"Map-Notify is wanted":   c.ETR.MapServers[0].WantMapNotify,
			"registers every minute": c.ETR.MapServers[0].RegistrationInterval == time.Minute,
			"locators are those of wan0": slices.Equal(c.LocatorsOf(c.ETR.LocalEIDs[0].RLOCs),
				[]Locator{{Interface: "wan0", Port: 4341, AddressFamily: FamilyBoth, Priority: 1, Weight: 100, MulticastPriority: 255, Reachable: true}}),
		}
	},
	"xtr-dual-stack.yaml": func(c *Config) map[string]bool {
		return map[string]bool{
			"both families of EIDs": c.ETR.LocalEIDs[0].EID.Kind() == lisp.EIDIPv4 && c.ETR.LocalEIDs[1].EID.Kind() == lisp.EIDIPv6,
			"12 hours":              c.ETR.LocalEIDs[1].TTLMinutes == 720,
			"two Map-Resolvers":     len(c.ITR.MapResolvers) == 2 && c.ITR.MapResolvers[1].Addr().Is6(),
			"an xTR-ID":             c.RouterID.XTRID.String() == "6f1c3a520d7e4b0e9a532f6c1d0b7e11",
		}
	},
	"xtr-multihomed.yaml": func(c *Config) map[string]bool {
		set := c.LocatorsOf(c.ETR.LocalEIDs[0].RLOCs)
		return map[string]bool{
			"three locators":     len(set) == 3,
			"3 to 1":             set[0].Weight == 3*set[1].Weight && set[0].Priority == set[1].Priority,
			"IPv6 serves after":  set[2].Priority > set[0].Priority && set[2].AddressFamily == FamilyIPv6,
			"proxy replies":      c.ETR.MapServers[0].ProxyReply && c.ETR.MapServers[1].ProxyReply,
			"a tenant":           c.Interfaces.Site[1].InstanceID == 7,
			"his EIDs are apart": c.ETR.LocalEIDs[2].Prefix().String() == "[7]10.1.0.0/16" && c.ETR.LocalEIDs[0].Prefix().String() == "10.1.0.0/16",
		}
	},
	"itr.yaml": func(c *Config) map[string]bool {
		return map[string]bool{
			"not registered":   len(c.ETR.MapServers) == 0 && len(c.ETR.LocalEIDs) == 1,
			"bounds":           c.ITR.Wait == Wait{PacketsPerDestination: 64, Packets: 8192, Octets: 64 << 20, Time: 3 * time.Second},
			"an hour":          c.ITR.MapCache.IdleTimeout == time.Hour && c.ITR.MapCache.Limit == 100000,
			"positive mapping": len(c.ITR.MapCache.Mappings[0].RLOCs.Locators) == 2,
			"negative mapping": *c.ITR.MapCache.Mappings[1].Action == lisp.ActionDrop,
		}
	},
	"etr.yaml": func(c *Config) map[string]bool {
		return map[string]bool{
			"no ITR":          c.ITR == nil,
			"core by address": c.Interfaces.Core[0].Interface.Address.String() == "203.0.113.2",
			"key":             c.ETR.MapServers[0].Keys[0].ID == 1 && c.ETR.MapServers[0].Keys[0].Algorithm == AlgorithmHMACSHA256,
			"two locators":    len(c.LocatorsOf(c.ETR.LocalEIDs[0].RLOCs)) == 2,
		}
	},
	"map-server.yaml": func(c *Config) map[string]bool {
		amsterdam, berlin := c.MapServer.Sites[0], c.MapServer.Sites[1]
		return map[string]bool{
			"no data plane":       !c.UsesDataPlane(),
			"two keys":            len(amsterdam.Keys) == 2 && amsterdam.Keys[1].ID == 2,
			"more-specifics":      amsterdam.EIDPrefixes[0].MoreSpecificsAccepted && !amsterdam.EIDPrefixes[1].MoreSpecificsAccepted,
			"the older router":    berlin.AcceptAnyNonce && berlin.Keys[0].Algorithm == AlgorithmHMACSHA1,
			"replies by request":  berlin.ProxyReply == ProxyReplyByRequest,
			"three minutes":       c.MapServer.RegistrationTimeout == 3*time.Minute,
			"same numbers, apart": berlin.EIDPrefixes[1].Prefix().String() == "[7]10.2.0.0/16",
		}
	},
	"map-resolver.yaml": func(c *Config) map[string]bool {
		return map[string]bool{
			"asked for all":  len(c.MapResolver.MapServers[0].EIDPrefixes) == 0,
			"asked for some": len(c.MapResolver.MapServers[1].EIDPrefixes) == 2,
			"two addresses":  len(c.Control.Addresses) == 2 && c.Control.Port == 4342,
		}
	},
	"rtr.yaml": func(c *Config) map[string]bool {
		return map[string]bool{
			"an RTR alone":          c.RTR != nil && c.PITR == nil && c.PETR == nil && c.ETR == nil && !c.EncapsulatesForSite(),
			"both families":         len(c.RTR.Relay[0].EIDPrefixes) == 4 && c.RTR.Relay[0].EIDPrefixes[3].Kind() == lisp.EIDIPv6,
			"another Instance-ID":   c.RTR.Relay[1].InstanceID == 7,
			"one layer":             c.Datapath.RecursionDepth == 1,
			"it asks Map-Resolvers": len(c.ITR.MapResolvers) == 1,
		}
	},
	"pitr-petr.yaml": func(c *Config) map[string]bool {
		return map[string]bool{
			"PITR and PETR":       c.RTR == nil && c.PITR != nil && c.PETR != nil && c.ETR == nil,
			"sources are limited": len(c.PITR.Serve[0].Sources) == 2,
			"the same EIDs":       slices.Equal(c.PITR.Serve[0].EIDPrefixes, c.PETR.Serve[0].EIDPrefixes),
		}
	},
	"xtr-paths.yaml": func(c *Config) map[string]bool {
		set := c.LocatorsOf(c.ETR.LocalEIDs[0].RLOCs)
		first := set[0].Path.Hops()
		return map[string]bool{
			"two paths":              len(set) == 2 && len(first) == 3 && len(set[1].Path.Hops()) == 3,
			"the second serves then": set[0].Priority == 1 && set[1].Priority == 2,
			"strict, then probed":    lisp.HopBits(first[0].Bits) == lisp.HopStrict && lisp.HopBits(first[1].Bits) == lisp.HopProbe && first[2].Bits == 0,
			"both end here":          first[2].Address == set[1].Path.Hops()[2].Address,
			"a port":                 c.ITR.MapCache.Mappings[0].RLOCs.Locators[0].RLOC().String() == "198.51.100.77:40001",
			"a proxy ETR":            c.ITR.ProxyETRs.Locators[0].Address.String() == "198.51.100.9",
		}
	},
	"nat-server.yaml": func(c *Config) map[string]bool {
		rtr, relay := c.MapServer.RTRs[0], c.RTR.NATTraversal
		return map[string]bool{
			"all five":         c.MapServer != nil && c.MapResolver != nil && c.RTR != nil && c.PETR != nil && c.PITR != nil,
			"at one address":   rtr.Address == relay.MapServers[0].Address && c.ITR.MapResolvers[0].Addr() == rtr.Address,
			"not by itself":    len(c.ITR.ProxyETRs.Locators) == 0, // they would be dropped as own-next-hop
			"single addresses": c.MapServer.Sites[0].EIDPrefixes[0].MoreSpecificsAccepted,
		}
	},
	"nat-home-router.yaml": func(c *Config) map[string]bool { return behindNAT(c) },
	"nat-lispers.yaml": func(c *Config) map[string]bool {
		t := c.ETR.NATTraversal
		return map[string]bool{
			"simple-nat":           t.Protocol == NATSimple && t.RTR == RTRBehindNAT,
			"each 15 seconds":      t.Keepalive == 15*time.Second,
			"by that server alone": c.ETR.MapServers[0].Address.Addr() == c.ITR.MapResolvers[0].Addr(),
		}
	},
	"nat-laptop.yaml": func(c *Config) map[string]bool {
		says := behindNAT(c)
		says["all packets"] = c.MobileNode != nil && c.MobileNode.DefaultRoute
		return says
	},
	"nat-container.yaml": func(c *Config) map[string]bool {
		says := behindNAT(c)
		says["packets to EIDs"] = c.MobileNode != nil && !c.MobileNode.DefaultRoute
		return says
	},
	"map-server-resolver.yaml": func(c *Config) map[string]bool {
		return map[string]bool{
			"both":      c.MapServer != nil && c.MapResolver != nil && len(c.MapResolver.MapServers) == 0,
			"two sites": len(c.MapServer.Sites) == 2,
		}
	},
}

// behindNAT is what routers behind NATs have in common.
func behindNAT(c *Config) map[string]bool {
	t := c.ETR.NATTraversal
	return map[string]bool{
		"NATs are found":       t.Protocol == NATAuto && t.RTR == RTRBehindNAT,
		"the binding is kept":  t.Keepalive == 25*time.Second,
		"data plane":           c.Datapath.Engine == EngineUser,
		"by that server alone": c.ETR.MapServers[0].Address.Addr() == c.ITR.MapResolvers[0].Addr(),
	}
}

func TestExamples(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(examplesDirectory, "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range files {
		check, known := examples[filepath.Base(file)]
		if !known {
			t.Errorf("%s: nothing is expected of it", file)
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Parse(filepath.Base(file), text)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		checkWarnings(t, c, string(text))
		for _, line := range keysOthersRead(string(text)) {
			t.Errorf("%s: a key without a word on who may read it: %s", file, line)
		}
		for what, holds := range check(c) {
			if !holds {
				t.Errorf("%s: not so: %s", file, what)
			}
		}
	}
	if len(files) != len(examples) {
		t.Errorf("%d files, %d expected", len(files), len(examples))
	}
}

// checkWarnings expects one for each value that everybody knows, and no other.
func checkWarnings(t *testing.T, c *Config, text string) {
	t.Helper()
	want := len(shownSecret.FindAllString(text, -1)) + len(shownXTRID.FindAllString(text, -1))
	for _, w := range c.Warnings {
		if !strings.Contains(w.Message, "stands in Loci's examples") {
			t.Errorf("warning: %v", w)
		}
	}
	if len(c.Warnings) != want {
		t.Errorf("%d warnings of values that everybody knows, want %d: %v", len(c.Warnings), want, c.Warnings)
	}
}

var (
	shownSecret = regexp.MustCompile(`auth-key-value: *([^ ,}\n]+)`)
	shownXTRID  = regexp.MustCompile(`xtr-id: *([0-9a-f-]+)`)
)

// TestShownKeysAreKnown: what examples and documents show to be copied is warned of. The
// tutorial shows a network that is removed again.
func TestShownKeysAreKnown(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(examplesDirectory, "*"))
	if err != nil {
		t.Fatal(err)
	}
	keys, ids := maps.Clone(exampleKeys), maps.Clone(exampleXTRIDs)
	for _, file := range append(files, "../README.md", documentFile, "../docs/multihoming.md", interoperabilityFile) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range shownSecret.FindAllStringSubmatch(string(text), -1) {
			if delete(keys, match[1]); !exampleKeys[match[1]] {
				t.Errorf("%s: the key %s is not known", file, match[1])
			}
		}
		for _, match := range shownXTRID.FindAllStringSubmatch(string(text), -1) {
			id := strings.ReplaceAll(match[1], "-", "")
			if delete(ids, id); !exampleXTRIDs[id] {
				t.Errorf("%s: the xTR-ID %s is not known", file, id)
			}
		}
	}
	if len(keys)+len(ids) > 0 {
		t.Errorf("known, but shown nowhere: %v %v", keys, ids)
	}
}

// keysOthersRead are the lines with keys that say nothing about the file's mode: the
// mode that a fresh copy has is warned of, and the reader is to know why.
func keysOthersRead(text string) (list []string) {
	for _, line := range strings.Split(text, "\n") {
		if strings.Contains(line, "auth-key-value:") && !strings.Contains(line, "# chmod 600") {
			list = append(list, line)
		}
	}
	return list
}

// TestMinimalXTR: an operator writes fewer than 15 lines.
func TestMinimalXTR(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(examplesDirectory, "xtr.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(text), "\n"); lines >= 15 {
		t.Errorf("the minimal xTR has %d lines with its comments", lines)
	}
}

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// TestInteroperabilityExamples: each configuration for a peer is accepted, with no warning but of the key that
// everybody knows.
func TestInteroperabilityExamples(t *testing.T) {
	page, err := os.ReadFile(interoperabilityFile)
	if err != nil {
		t.Fatal(err)
	}
	blocks := yamlBlock.FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 5 {
		t.Errorf("%d configurations", len(blocks))
	}
	for _, block := range blocks {
		c, err := Parse(interoperabilityFile, []byte(block[1]))
		if err != nil {
			t.Errorf("%v\n%s", err, block[1])
			continue
		}
		checkWarnings(t, c, block[1])
	}
}
