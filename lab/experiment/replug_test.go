// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"loci/internal/testnet"
)

// moveFile is a node between two routers, with addresses of both families, and a second link.
const moveFile = `
name: move
description: a node that moves
nodes:
  - name: a
    routes: [{to: 0.0.0.0/0, via: 192.168.1.1}, {to: "::/0", via: "fd00::1"}]
  - {name: r1, forwards: true, nat: {outside: out}}
  - {name: r2, forwards: true, nat: {outside: out}}
  - {name: b}
links:
  - ends:
      - {node: a, interface: eth0, addresses: [192.168.1.2/24, "fd00::2/64"]}
      - {node: r1, interface: in, addresses: [192.168.1.1/24, "fd00::1/64"]}
  - ends:
      - {node: a, interface: eth1}
      - {node: r1, interface: parked}
  - ends:
      - {node: b, interface: b1, addresses: [198.51.100.2/30, "2001:db8:1::2/64"]}
      - {node: r1, interface: out, addresses: [198.51.100.1/30, "2001:db8:1::1/64"]}
  - ends:
      - {node: b, interface: b2, addresses: [198.51.100.6/30, "2001:db8:2::2/64"]}
      - {node: r2, interface: out, addresses: [198.51.100.5/30, "2001:db8:2::1/64"]}
rows:
  - number: 1
    title: the node has the same private address elsewhere
    move:
      node: a
      interface: eth0
      to: {node: r2, interface: in, addresses: [192.168.1.1/24, "fd00::1/64"]}
      addresses: [192.168.1.2/24, "fd00::2/64"]
      routes:
        - {to: 0.0.0.0/0, via: 192.168.1.1, metric: 20}
        - {to: "::/0", via: "fd00::1", metric: 20}
      within: 5s
    send: &by-r2 {from: a, source: 192.168.1.2, destination: 198.51.100.6}
    expect:
      seen: [{node: b, interface: b2, source: 198.51.100.5}]
    control:
      change: the node has not moved
      send: *by-r2
      expect: {unseen: [{node: b, interface: b2}]}
  - number: 2
    title: the node has a second link before it loses the first
    move:
      node: a
      interface: eth1
      to: {node: r1, interface: again, addresses: ["fd00::1/64"]}
      addresses: ["fd00::3/64"]
      routes: [{to: "::/0", via: "fd00::1", metric: 10}]
      loses: eth0
      overlap: 10ms
      within: 5s
    send: {from: a, source: "fd00::3", destination: "2001:db8:1::2"}
    expect:
      seen: [{node: r1, interface: again, layers: 0}, {node: b, interface: b1, source: "2001:db8:1::1"}]
      unseen: [{node: r2, interface: in}]
    control:
      change: the node has the first link alone
      send: {from: a, source: "fd00::2", destination: "2001:db8:1::2"}
      expect: {seen: [{node: r2, interface: in}], unseen: [{node: b, interface: b1}, {node: r1, interface: parked}]}
`

// TestANodeMoves: from one NAT box to another, by one interface and by two; a claim that does not hold in time fails.
func TestANodeMoves(t *testing.T) {
	report, progress, err := runFile(t, moveFile, Options{})
	if err != nil || !report.Passed || report.Rows[0].Held == nil || *report.Rows[1].Held > 5 ||
		!strings.Contains(progress, "s after the move") {
		t.Errorf("%v, %+v\n%s", err, report, progress)
	}
	short := strings.Replace(moveFile[:strings.Index(moveFile, "  - number: 2")], "within: 5s", "within: 1ms", 1)
	short = strings.Replace(short, "0.0.0.0/0, via: 192.168.1.1, metric",
		"203.0.113.0/24, via: 192.168.1.1, metric", 1)
	report, progress, err = runFile(t, short, Options{})
	if len(report.Rows) == 0 {
		t.Fatalf("%v\n%s", err, progress)
	}
	row := report.Rows[0]
	if !errors.Is(err, ErrFailed) || row.Held != nil || row.Claim.Passed || !row.Control.Passed ||
		!strings.Contains(progress, "network is unreachable") {
		t.Errorf("no route after the move: %v, %+v\n%s", err, report, progress)
	}
}

// TestMistakesInMovesAreReported: each is refused, and its line and column are named.
func TestMistakesInMovesAreReported(t *testing.T) {
	if _, err := readVariants([]byte(moveFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := readVariants(nil); err == nil {
		t.Error("an empty file is read")
	}
	impaired := "  - impair: {delay: 1ms}\n    ends:\n      - {node: a, interface: eth0,"
	for name, c := range map[string]struct{ old, new, want string }{
		"unknown node": {"      node: a\n", "      node: c\n",
			`[27:13] row 1, move: there is no node "c"`},
		"unknown link": {"interface: eth0\n", "interface: eth7\n",
			`[28:18] row 1, move: node a has no interface "eth7"`},
		"emulated link": {"  - ends:\n      - {node: a, interface: eth0,", impaired,
			`row 1, move: the link of eth0 is emulated`},
		"unknown network": {"to: {node: r2", "to: {node: r3", `[29:11] a link: there is no node "r3"`},
		"itself": {"to: {node: r2", "to: {node: a",
			`row 1, move: node a cannot be linked to itself`},
		"name in use": {"interface: again", "interface: out", `[47:11] node r1: interface "out"`},
		"name too long": {"interface: again", "interface: a-name-of-16-char",
			`want a name of at most 15 octets`},
		"no address": {"      addresses: [\"fd00::3/64\"]\n", "", `row 2, move: addresses are needed`},
		"not an address": {`addresses: ["fd00::3/64"]`, `addresses: ["fd00::3"]`,
			`[48:19] netip.ParsePrefix("fd00::3")`},
		"not a next hop": {`via: "fd00::1", metric: 10`, `via: "fd00::g", metric: 10`,
			`[49:34] ParseAddr("fd00::g")`},
		"empty addresses": {`addresses: ["fd00::1/64"]}` + "\n      addresses: [\"fd00::3/64\"]",
			"addresses: [\"\"]}\n      addresses: [\"\"]", `row 2, move: invalid Prefix: the other end`},
		"another network": {`addresses: ["fd00::3/64"]`, `addresses: ["fd01::3/64"]`,
			`[48:19] row 2, move: fd01::3/64: the other end has no address`},
		"family of address": {`addresses: ["fd00::3/64"]`, `addresses: [192.168.1.3/24]`,
			`row 2, move: 192.168.1.3/24: the other end has no address`},
		"families of route": {`via: "fd00::1", metric: 10`, `via: 192.168.1.1, metric: 10`,
			`[49:16] row 2, move: a route to ::/0 via 192.168.1.1: want both of one family`},
		"far next hop": {`via: "fd00::1", metric: 10`, `via: "fd01::1", metric: 10`,
			`want one in a prefix of the new addresses`},
		"no destination": {`{to: "::/0", via: "fd00::1", metric: 10}`, `{via: "fd00::1"}`,
			`want both of one family`},
		"metric": {"metric: 10", "metric: -1", `[49:53]`},
		"loses itself": {"loses: eth0", "loses: eth1",
			`[50:14] row 2, move: loses "eth1": want another interface of node a`},
		"loses nothing": {"      loses: eth0\n", "", `row 2, move: overlap 10ms`},
		"overlap":       {"overlap: 10ms", "overlap: -1s", `[51:16] row 2, move: overlap -1s`},
		"not a time":    {"within: 5s", "within: soon", `[34:15] time: invalid duration "soon"`},
		"no time":       {"      within: 5s\n", "", `row 1, move: within 0s: want more than 0s`},
		"unknown key":   {"within: 5s", "withn: 5s", `unknown field "withn"`},
		"where it was": {"{node: r2, interface: in}], unseen", "{node: r1, interface: in}], unseen",
			`row 2, control: node r1 has no interface "in"`},
		"too early": {"{unseen: [{node: b, interface: b2}]}", "{unseen: [{node: r2, interface: in}]}",
			`row 1, control: node r2 has no interface "in"`},
		"gone": {"interface: again, layers: 0}", "interface: parked, layers: 0}",
			`row 2: node r1 has no interface "parked"`},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(moveFile, c.old, c.new, 1)
			if text == moveFile {
				t.Fatal("the mistake is not in the file")
			}
			if _, err := readVariants([]byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v: want %q", err, c.want)
			}
		})
	}
}

// TestMobileNAT: the experiment with daemons; in all variants where tests may take long.
func TestMobileNAT(t *testing.T) {
	testnet.RequireRoot(t)
	must(t, buildCommands())
	text, err := load("mobile-nat")
	must(t, err)
	report, progress, err := runFile(t, string(text), Options{
		Variants: variantsInTests("ipv4-user"), Executable: filepath.Join(directoryOfCommands, "loci"),
	})
	if err != nil || !report.Passed {
		t.Fatalf("%v\n%s", err, progress)
	}
}
