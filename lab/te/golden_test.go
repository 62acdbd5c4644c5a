// SPDX-License-Identifier: Apache-2.0

package te

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"loci/config"
	"loci/internal/jsondoc"
)

var update = flag.Bool("update", false, "write the golden files anew")

// sitesAndRTRs is two sites and three RTRs; the first two numbers are the IPv4 networks, or IPv6 where that is wanted.
func sitesAndRTRs(t *testing.T, is6 bool) (*Graph, Policy) {
	t.Helper()
	in := func(addresses string) string { return addresses }
	if is6 {
		in = strings.NewReplacer("203.0.113.", "2001:db8:113::", "198.51.100.", "2001:db8:100::").Replace
	}
	a, b := in("203.0.113.1"), in("203.0.113.2")
	r1, r2, r3 := in("198.51.100.1"), in("198.51.100.2"), in("198.51.100.3")
	nodes := []Told{
		told(a, probed(r1, 10*ms, time.Second), probed(r2, 12*ms, 2*time.Second),
			probed(r3, 60*ms, 3*time.Second), probed(b, 40*ms, 4*time.Second)),
		told(r1, probed(b, 15*ms, 5*time.Second), probed(r2, 3*ms, 6*time.Second)),
		told(r2, probed(b, 14*ms, 7*time.Second), probed(r1, 9*ms, 8*time.Second)),
		told(r3, probed(b, 70*ms, 9*time.Second), probed(r1, 5*ms, 2*time.Hour)),
		told(b),
	}
	g, err := NewGraph(nodes, Age{Now: now, Max: 5 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	p := Policy{Candidates: 8, Ratio: 1.5, Paths: 2, LinkDisjoint: true}
	p.From, _ = g.Find(netip.MustParseAddr(a))
	p.To, _ = g.Find(netip.MustParseAddr(b))
	return g, p
}

// TestGolden: text, JSON, SVG and YAML of one choice, in both families.
func TestGolden(t *testing.T) {
	for family, is6 := range map[string]bool{"ipv4": false, "ipv6": true} {
		g, p := sitesAndRTRs(t, is6)
		c, err := g.Choose(p)
		if err != nil {
			t.Fatal(err)
		}
		d := Describe(g, p, c, now, "te")
		for kind, write := range map[string]func(io.Writer) error{
			"txt": d.WriteText, "json": func(w io.Writer) error { return jsondoc.WriteIndented(w, d) },
			"svg":  func(w io.Writer) error { _, err := io.WriteString(w, d.SVG()); return err },
			"yaml": func(w io.Writer) error { return d.WriteYAML(w, true) },
		} {
			var got bytes.Buffer
			if err := write(&got); err != nil {
				t.Fatal(err)
			}
			compareGolden(t, family+"."+kind, got.Bytes())
		}
	}
}

func compareGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: %v, got:\n%s\nwant:\n%s", name, err, got, want)
	}
}

// TestDrawingIsXML, with a line of its own colour for each link of a chosen path.
func TestDrawingIsXML(t *testing.T) {
	g, p := sitesAndRTRs(t, false)
	c, err := g.Choose(p)
	if err != nil {
		t.Fatal(err)
	}
	drawing := Describe(g, p, c, now, "te").SVG()
	for decoder := xml.NewDecoder(strings.NewReader(drawing)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if lines := strings.Count(drawing, `stroke="#0072b2"`); lines != 2 {
		t.Errorf("the first path has %d links in the drawing, want 2", lines)
	}
}

// TestConfigurationTakesTheSet, without a warning but that no one uses it; the same set is read back by --keep.
func TestConfigurationTakesTheSet(t *testing.T) {
	for _, is6 := range []bool{false, true} {
		for _, strict := range []bool{false, true} {
			g, p := sitesAndRTRs(t, is6)
			p.LinkDisjoint, p.Ratio, p.Paths = false, 10, 4
			c, err := g.Choose(p)
			if err != nil {
				t.Fatal(err)
			}
			var text bytes.Buffer
			if err := Describe(g, p, c, now, "te").WriteYAML(&text, strict); err != nil {
				t.Fatal(err)
			}
			whole := text.String() + "interfaces: {site: [lan0], core: [wan0]}\netr: {local-eids: [{eid: 10.1.0.0/16, rlocs: te}]}\n"
			parsed, err := config.Parse("site.yaml", []byte(whole))
			if err != nil {
				t.Fatalf("%v\n%s", err, whole)
			}
			if set := parsed.LocatorSets["te"]; len(set) != 4 || set[0].Priority != 1 ||
				set[3].Priority != 4 {
				t.Errorf("%v", set)
			}
			old, err := SetIn("te.yaml", text.Bytes(), "te")
			if err != nil {
				t.Fatal(err)
			}
			c.Keep(g, p, old, 0)
			if !c.Kept || !strings.HasPrefix(c.Reason, "the set from before is the best one still") {
				t.Errorf("%s\n%s", c.Reason, whole)
			}
		}
	}
}

// TestSetsThatAreNone are refused with a reason.
func TestSetsThatAreNone(t *testing.T) {
	for text, want := range map[string]string{
		"locator-sets: {other: [{address: 192.0.2.1}]}": "no locator-set te; it has: other",
		"locator-sets: {te: [{interface: wan0}]}":       "locator wan0 has no address",
		"locator-sets: {te: [{weight: 7}]}":             "has no address",
		"locator-sets: {te: []}":                        "locator-set te is empty",
		"":                                              "te.yaml",
		"locator-sets: {te: [7}":                        "te.yaml:1",
		"locator-sets: {te: [{address: 192.0.2.1}]}\nnonsense: 1": "nonsense",
	} {
		if set, err := SetIn("te.yaml", []byte(text), "te"); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v, want %s", text, set, err, want)
		}
	}
}
