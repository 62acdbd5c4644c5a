// SPDX-License-Identifier: Apache-2.0

package lisp

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
)

func TestPrefixTextRoundTrips(t *testing.T) {
	for _, text := range []string{
		"0.0.0.0/0", "10.1.0.0/16", "10.1.2.3/32", "[7]10.0.0.0/8", "2001:db8::/32", "[16777214]::/0",
		"02:00:00:00:00:01/48", "02:00:00:00:00:00/24", `"router.example"/120`, `"router"/48`, `"a/b"/32`, `""/8`, `""/0`,
	} {
		p, err := ParsePrefix(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if p.String() != text {
			t.Errorf("%s came back as %s", text, p)
		}
		encoded, _ := json.Marshal(p)
		var back Prefix
		if err := json.Unmarshal(encoded, &back); err != nil || back != p {
			t.Errorf("%s through JSON: %v, %v", text, back, err)
		}
	}
}

func TestParsePrefixRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"10.1.0.1/16":                       "did you mean 10.1.0.0/16?",
		"10.1.0.0/33":                       "want 0 to 32",
		"10.1.0.0/-1":                       "want 0 to 32",
		"10.1.0.0/x":                        "not a number",
		"[16777215]10.0.0.0/8":              "from 0 to 16777214",
		"[1 10.0.0.0/8":                     "no ]",
		"fe80::1%eth0":                      "want an IPv4",
		"hello":                             "want an IPv4",
		`"router"/47`:                       "whole octets",
		`"` + strings.Repeat("x", 31) + `"`: "at most 30",
		`"na\x00me"`:                        "without NUL",
	} {
		if _, err := ParsePrefix(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", text, err, want)
		}
	}
}

func TestPrefixCovers(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"10.0.0.0/8", "10.1.0.0/16", true},
		{"10.1.0.0/16", "10.0.0.0/8", false},
		{"10.1.0.0/16", "10.1.0.0/16", true},
		{"0.0.0.0/0", "10.1.0.0/16", true},
		{"0.0.0.0/0", "::/0", false},
		{"[1]10.0.0.0/8", "10.1.0.0/16", false},
		{"2001:db8::/33", "2001:db8:8000::/33", false},
		{"2001:db8::/32", "2001:db8:8000::/33", true},
		{"02:00:00:00:00:00/24", "02:00:00:01:02:03", true},
		{`"ietf"/32`, `"ietf.lisp"/80`, true},  // names match by characters, the NUL is no part of the prefix
		{`"ietf"/40`, `"ietf.lisp"/80`, false}, // with its NUL the name is exact
		{`"ietf"/40`, `"ietf"/40`, true},
	} {
		if got := MustParsePrefix(c.a).Covers(MustParsePrefix(c.b)); got != c.want {
			t.Errorf("%s covers %s: %v", c.a, c.b, got)
		}
	}
}

func TestNamePrefixesStayApart(t *testing.T) {
	if MustParsePrefix(`"ietf"/32`) == MustParsePrefix(`"ietf"/40`) {
		t.Error("the open and the exact name are one key")
	}
}

func TestEIDFromAddrUnmaps(t *testing.T) {
	if got := EIDFromAddr(netip.MustParseAddr("::ffff:10.0.0.1")); got.Kind() != EIDIPv4 {
		t.Errorf("got %s of kind %s", got, got.Kind())
	}
	if !EIDFromAddr(netip.Addr{}).IsZero() {
		t.Error("the invalid address became an EID")
	}
}

func locator(t *testing.T, address string, priority, weight uint8) Locator {
	t.Helper()
	r, err := ParseRLOC(address)
	if err != nil {
		t.Fatal(err)
	}
	return Locator{RLOC: r, Priority: priority, Weight: weight, Reachable: true}
}

// Shows RFC 9301 s.5.5 (4).
func TestLocatorSetOrder(t *testing.T) {
	set, err := NewLocatorSet(locator(t, "2001:db8::1", 1, 1), locator(t, "192.0.2.9", 1, 1), locator(t, "10.255.0.1", 1, 1))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"10.255.0.1", "192.0.2.9", "2001:db8::1"}
	for i, l := range set {
		if l.RLOC.String() != want[i] {
			t.Errorf("position %d holds %s, want %s", i, l.RLOC, want[i])
		}
		if found, ok := set.Find(l.RLOC); !ok || found != l {
			t.Errorf("%s not found", l.RLOC)
		}
	}
}

func TestLocatorSetRefuses(t *testing.T) {
	same := locator(t, "192.0.2.1", 1, 1)
	if _, err := NewLocatorSet(same, same); err == nil {
		t.Error("a doubled RLOC was accepted")
	}
	if _, err := NewLocatorSet(make([]Locator, MaxLocators+1)...); err == nil {
		t.Error("33 locators were accepted")
	}
}

func TestBestLocators(t *testing.T) {
	down := locator(t, "192.0.2.1", 1, 1)
	down.Reachable = false
	set, _ := NewLocatorSet(down, locator(t, "192.0.2.2", 255, 1), locator(t, "192.0.2.3", 3, 1),
		locator(t, "192.0.2.4", 2, 1), locator(t, "2001:db8::4", 2, 1))
	best := set.Best()
	if len(best) != 2 || best[0].RLOC.String() != "192.0.2.4" || best[1].RLOC.String() != "2001:db8::4" {
		t.Errorf("best are %v", best)
	}
}

func TestRLOCRefuses(t *testing.T) {
	for _, text := range []string{"", "127.0.0.1", "::1", "0.0.0.0", "::", "255.255.255.255", "224.0.0.1", "ff02::1", "fe80::1", "x"} {
		if r, err := ParseRLOC(text); err == nil {
			t.Errorf("%q was accepted as %s", text, r)
		}
	}
}

func TestActionNames(t *testing.T) {
	for a := ActionNoAction; a <= ActionDropAuthFailure; a++ {
		if back, err := ParseAction(a.String()); err != nil || back != a {
			t.Errorf("%s: %v, %v", a, back, err)
		}
	}
	if Action(7).String() != "action-7" {
		t.Error("an unassigned action has no number")
	}
}

func FuzzParsePrefix(f *testing.F) {
	f.Add("[7]10.0.0.0/8")
	f.Add(`"a/b"/32`)
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParsePrefix(s)
		if err != nil {
			return
		}
		if back, err := ParsePrefix(p.String()); err != nil || back != p {
			t.Fatalf("%q became %s, which became %v (%v)", s, p, back, err)
		}
	})
}

func TestPrivateRLOCs(t *testing.T) {
	for text, want := range map[string]bool{
		"10.0.0.1": true, "172.31.255.1": true, "172.32.0.1": false, "192.168.1.1": true, "100.64.0.1": true, "100.127.255.255": true,
		"100.128.0.1": false, "203.0.113.1": false, "fd00::1": true, "fc00::1": true, "2001:db8::1": false,
	} {
		if got := RLOCFromAddr(netip.MustParseAddr(text)).IsPrivate(); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	if (RLOC{}).IsPrivate() {
		t.Error("no RLOC is private")
	}
}
