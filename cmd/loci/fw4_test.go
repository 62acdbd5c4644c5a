// SPDX-License-Identifier: Apache-2.0

package main_test

// OpenWrt's default firewall in front of the data plane in user space, and what the package opens in it.

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"loci/internal/testnet"
)

// madeSections are those that the package's script adds to /etc/config/firewall, by their names, with a stand-in for uci.
func (n *lispNetwork) madeSections(configuration string) map[string]map[string]string {
	n.t.Helper()
	const script = `set -e
uci() {
	shift 2 # -t DIRECTORY
	if [ "$1" = -q ]; then return 1; fi
	if [ "$1" = set ]; then echo "$2"; fi
}
FIREWALL_CONFIG=$1
. ../../packaging/openwrt/firewall.sh
firewall_open "$1"`
	output, err := exec.Command("sh", "-c", script, "sh", configuration).Output()
	n.must(err)
	sections := map[string]map[string]string{}
	for _, set := range regexp.MustCompile(`(?m)^firewall\.(\w+)(?:\.(\w+))?=(.*)$`).FindAllStringSubmatch(string(output), -1) {
		if set[2] == "" {
			sections[set[1]] = map[string]string{"type": set[3]}
		} else {
			sections[set[1]][set[2]] = set[3]
		}
	}
	return sections
}

// fw4 is the rule set of the default configuration with further sections.
func fw4(t *testing.T, sections map[string]map[string]string) string {
	t.Helper()
	added := map[string]string{}
	for name, s := range sections {
		switch s["type"] {
		case "rule":
			added["input_"+s["src"]] += fmt.Sprintf("\t\t%s dport %s counter %s comment \"!fw4: %s\"\n", s["proto"], s["dest_port"], strings.ToLower(s["target"]), s["name"])
		case "zone":
			added["input"] += fmt.Sprintf("\t\tiifname %q jump handle_reject\n", s["device"])
			added["forward"] += fmt.Sprintf("\t\tiifname %q jump forward_%s\n", s["device"], s["name"])
			added["chains"] += fmt.Sprintf("\tchain accept_to_%s {\n\t\toifname %q counter accept\n\t}\n", s["name"], s["device"])
		case "forwarding":
			if s["src"] == "lan" {
				added["forward_lan"] += "\t\tjump accept_to_" + s["dest"] + "\n"
			} else {
				added["chains"] += fmt.Sprintf("\tchain forward_%s {\n\t\tjump accept_to_%s\n\t\tjump handle_reject\n\t}\n", s["src"], s["dest"])
			}
		default:
			t.Fatalf("section %s: %v", name, s)
		}
	}
	text, err := os.ReadFile("../../packaging/test/fw4.nft")
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?m)^@(\w+)\n`).ReplaceAllStringFunc(string(text), func(place string) string {
		return added[strings.Trim(place, "@\n")]
	})
}

// load puts a rule set in force at a router, in place of the one before.
func (n *lispNetwork) load(name, rules string) {
	n.t.Helper()
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader("table inet fw4 {}\ndelete table inet fw4\n" + rules)
	log := &logBuffer{}
	cmd.Stdout, cmd.Stderr = log, log
	n.must(n.at[name].Start(cmd))
	if err := cmd.Wait(); err != nil {
		n.t.Fatalf("nft: %v\n%s\n%s", err, log, rules)
	}
}

// TestOpenWrtFirewall: with the default firewall every packet is lost, with what the package adds none, in both directions.
func TestOpenWrtFirewall(t *testing.T) {
	t.Parallel() // it mostly waits
	testnet.RequireRoot(t)
	testnet.RequireProgram(t, "nft")
	n := newLISPNetwork(t)
	n.engine = "user"
	for _, name := range []string{"xtr1", "xtr2"} {
		n.load(name, fw4(t, nil))
	}
	n.runAll()
	received := func(count int) (received int) {
		t.Helper()
		n.bothFamilies(func(one, two netip.Addr) {
			for from, ends := range map[string][2]netip.Addr{"host1": {one, two}, "host2": {two, one}} {
				result, err := testnet.Ping{
					Namespace: n.at[from], Source: ends[0], Destination: ends[1], Count: count, Interval: 20 * time.Millisecond, Timeout: 500 * time.Millisecond,
				}.Run(t.Context())
				n.must(err)
				received += result.Received
			}
		})
		return received
	}
	const pings, flows = 50, 4
	if got := received(pings); got != 0 {
		t.Errorf("with the default firewall %d of %d packets arrive: the test proves nothing", got, flows*pings)
	}
	sections := n.madeSections(n.file("xtr1"))
	if len(sections) != 5 || sections["loci_data"]["dest_port"] != "4341" || sections["loci_control"]["dest_port"] != "4342" {
		t.Fatalf("the package adds %v", sections)
	}
	if only := n.madeSections(n.file("ms")); len(only) != 1 || only["loci_control"] == nil {
		t.Errorf("for a mapping system the package adds %v", only)
	}
	for _, name := range []string{"xtr1", "xtr2"} {
		n.load(name, fw4(t, sections))
	}
	n.await("mappings in both directions", func(context.Context) bool { return received(1) == flows })
	if got := received(pings); got != flows*pings {
		t.Errorf("with what the package adds %d of %d packets arrive", got, flows*pings)
	}
}

// firewallBlock is the first block of a language of docs/firewall.md with a text.
func firewallBlock(t *testing.T, language, with string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/firewall.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
		if strings.Contains(block[1], with) {
			return block[1]
		}
	}
	t.Fatalf("docs/firewall.md has no block of %s with %q", language, with)
	return ""
}

// TestFirewallPage: with the rules for nftables of the page no packet is lost, whatever the data plane; without its rule for LISP all are,
// where the data plane is in user space.
func TestFirewallPage(t *testing.T) {
	for _, engine := range []string{"kernel", "user"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel() // it mostly waits
			testnet.RequireRoot(t)
			testnet.RequireProgram(t, "nft")
			n := newLISPNetwork(t)
			n.engine = engine
			rules := strings.NewReplacer(`"eth0"`, `"core0"`, `"eth1"`, `"site0"`).Replace(firewallBlock(t, "nft", "table inet router"))
			lisp := regexp.MustCompile(`(?m)^.*4341, 4342.*\n`)
			received := func(count int) (received int) {
				n.bothFamilies(func(one, two netip.Addr) {
					for from, ends := range map[string][2]netip.Addr{"host1": {one, two}, "host2": {two, one}} {
						result, err := testnet.Ping{
							Namespace: n.at[from], Source: ends[0], Destination: ends[1], Count: count, Interval: 20 * time.Millisecond, Timeout: 500 * time.Millisecond,
						}.Run(t.Context())
						n.must(err)
						received += result.Received
					}
				})
				return received
			}
			for _, name := range []string{"xtr1", "xtr2"} {
				n.load(name, lisp.ReplaceAllString(rules, ""))
			}
			n.runAll()
			// The kernel's data plane takes data packets before the filter, and answers to this router's control messages are let in.
			if got := received(10); engine == "user" && got != 0 {
				t.Errorf("without the rule for LISP %d packets arrive: the test proves nothing", got)
			}
			for _, name := range []string{"xtr1", "xtr2"} {
				n.load(name, "delete table inet router\n"+rules)
			}
			const pings, flows = 50, 4
			n.await("mappings in both directions", func(context.Context) bool { return received(1) == flows })
			if got := received(pings); got != flows*pings {
				t.Errorf("%d of %d packets arrive", got, flows*pings)
			}
		})
	}
}

// TestFirewallPageOfOpenWrt: what the page sets by hand is what the package makes.
func TestFirewallPageOfOpenWrt(t *testing.T) {
	file := t.TempDir() + "/loci.yaml"
	if err := os.WriteFile(file, []byte("itr:\netr:\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	set := regexp.MustCompile(`(?m)^uci set (firewall\.\w+(?:\.\w+)?=\S+)$`).FindAllStringSubmatch(firewallBlock(t, "sh", "uci set"), -1)
	by := map[string]string{}
	for _, line := range set {
		name, value, _ := strings.Cut(strings.TrimPrefix(line[1], "firewall."), "=")
		by[name] = value
	}
	n := &lispNetwork{t: t}
	made := 0
	for name, section := range n.madeSections(file) {
		for option, value := range section {
			key := name + "." + option
			if option == "type" {
				key = name
			}
			if made++; by[key] != value {
				t.Errorf("the package sets %s to %q, the page to %q", key, value, by[key])
			}
		}
	}
	if made == 0 || made != len(by) {
		t.Errorf("the package sets %d options, the page %d", made, len(by))
	}
}
