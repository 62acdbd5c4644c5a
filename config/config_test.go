// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"loci/config/codec"
	"loci/config/source"
)

// everything is a configuration that gives every key of the model.
const everythingFile = "testdata/everything.yaml"

func parseFile(t *testing.T, path string) *Config {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse(path, text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mustParse(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse("f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestEverything: the file gives every key, each with a value that is not the
// default, so that the tests which use it miss none.
// TestLongListsFitIntoAFile: what the model allows can be written down.
func TestLongListsFitIntoAFile(t *testing.T) {
	for _, c := range []struct {
		what, entry string
		section     any
		field       string
	}{
		{"sites", "    - name: site-000000\n      authentication-keys: [{auth-key-value: 0123456789abcdef0123456789abcdef}]\n" +
			"      eid-prefixes: [{eid: 10.100.100.100/32}, {eid: '2001:db8:aaaa:bbbb:cccc::/80', more-specifics-accepted: true}]\n", MapServer{}, "Sites"},
		{"local-eids", "    - {eid: '[16777215]2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff/128', rlocs: [{address: '2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff', priority: 100, weight: 100}]}\n", ETR{}, "LocalEIDs"},
		{"mappings", "    - {eid: '[16777215]2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff/128', rlocs: [{address: '2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff', priority: 100, weight: 100}]}\n", MapCache{}, "Mappings"},
	} {
		field, ok := reflect.TypeOf(c.section).FieldByName(c.field)
		if !ok {
			t.Fatalf("no field for %s", c.what)
		}
		most, err := strconv.Atoi(field.Tag.Get("max"))
		if err != nil || most*len(c.entry) > maxFileOctets {
			t.Errorf("%d %s take %d octets, and a file has %d at most; %v", most, c.what, most*len(c.entry), maxFileOctets, err)
		}
	}
}

func TestEverything(t *testing.T) {
	c := parseFile(t, everythingFile)
	refused := []string{"itr.map-cache.mappings[].rlocs[].interface", "itr.map-cache.mappings[].rlocs[].address-family",
		"itr.proxy-etrs[].interface", "itr.proxy-etrs[].address-family", "etr.local-eids[].rlocs[].port", "etr.local-eids[].rlocs[].explicit-locator-path[].port"}
	for _, plain := range []string{"itr.itr-rlocs[].", "itr.proxy-etrs[]."} {
		refused = append(refused, plain+"port", plain+"explicit-locator-path")
		for _, key := range []string{"address", "port", "lrs-bits"} {
			refused = append(refused, plain+"explicit-locator-path[]."+key)
		}
	}
	for _, k := range modelKeys.All() {
		if !everywhere(c, k.Path) && !slices.Contains(refused, k.Path) {
			t.Errorf("%s is not in %s", k.Path, everythingFile)
		}
	}
}

// everywhere reports whether the file gave the key, in any of the lists it is in.
func everywhere(c *Config, schemaPath string) bool {
	for path := range c.source.Paths() {
		if withoutIndexes(path) == schemaPath {
			return true
		}
	}
	return false
}

// withoutIndexes makes a path one of the schema.
func withoutIndexes(path string) string {
	var out strings.Builder
	inside := false
	for _, r := range path {
		inside = inside && r != ']' || r == '['
		if !inside || r == '[' {
			out.WriteRune(r)
		}
	}
	steps := strings.Split(out.String(), ".")
	if len(steps) > 1 && steps[0] == "locator-sets" {
		name, list, _ := strings.Cut(steps[1], "[")
		steps[1] = "NAME"
		if name != "" && list != "" {
			steps[1] += "[" + list
		}
	}
	return strings.Join(steps, ".")
}

// TestRoundTrip: what YAML prints means the same, once the secrets are put back.
func TestRoundTrip(t *testing.T) {
	files, _ := filepath.Glob(examplesDirectory + "/*.yaml")
	for _, file := range append(files, everythingFile) {
		c := parseFile(t, file)
		printed := string(c.YAML())
		for _, k := range c.keys() {
			if k.File == "" {
				printed = strings.Replace(printed, `"`+SecretMask+`"`, strconv.Quote(string(k.Value.Reveal())), 1)
			}
		}
		again, err := Parse("printed", []byte(printed))
		if err != nil {
			t.Errorf("%s: %v\n%s", file, err, printed)
			continue
		}
		if changes := Diff(c, again); changes != nil {
			t.Errorf("%s: the printed form differs: %v", file, changes)
		}
		if second := again.YAML(); string(second) != string(c.YAML()) {
			t.Errorf("%s: printed twice it differs", file)
		}
	}
}

// TestWhatWasSetMeansTheSame: without the defaults a configuration reads back as the same, and is shorter.
func TestWhatWasSetMeansTheSame(t *testing.T) {
	files, _ := filepath.Glob(examplesDirectory + "/*.yaml")
	for _, file := range append(files, everythingFile) {
		c := parseFile(t, file)
		printed := string(c.YAMLSet())
		if len(printed) >= len(c.YAML()) || strings.Contains(printed, "rule-priority: 1000\n") {
			t.Errorf("%s: defaults are printed:\n%s", file, printed)
		}
		for _, k := range c.keys() {
			if k.File == "" {
				printed = strings.Replace(printed, `"`+SecretMask+`"`, strconv.Quote(string(k.Value.Reveal())), 1)
			}
		}
		again, err := Parse("printed", []byte(printed))
		if err != nil {
			t.Errorf("%s: %v\n%s", file, err, printed)
			continue
		}
		if changes := Diff(c, again); changes != nil {
			t.Errorf("%s: the printed form differs: %v", file, changes)
		}
		var tree map[string]any
		if err := json.Unmarshal(c.JSONSet(), &tree); err != nil || len(tree) == 0 {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestEffectiveHidesSecrets, and is refused as a configuration until they are back.
func TestEffectiveHidesSecrets(t *testing.T) {
	c := parseFile(t, everythingFile)
	encoded, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{string(c.YAML()), string(encoded), fmt.Sprintf("%v %+v %#v", c.keys()[0].Key, *c.keys()[0].Key, c.keys()[0].Key.Value)} {
		for _, k := range c.keys() {
			if k.File == "" && strings.Contains(text, string(k.Value.Reveal())) {
				t.Errorf("a key is printed: %s", text)
			}
		}
	}
	if _, err := Parse("printed", c.YAML()); err == nil || !strings.Contains(err.Error(), "put the key itself here") {
		t.Errorf("the masked form is accepted: %v", err)
	}
}

func TestJSONHasTheKeysOfTheFileWithUnderscores(t *testing.T) {
	encoded, err := json.Marshal(parseFile(t, everythingFile))
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := json.Unmarshal(encoded, &tree); err != nil {
		t.Fatal(err)
	}
	itr := tree["itr"].(map[string]any)
	if itr["miss_policy"] != "drop" || itr["wait"].(map[string]any)["time_seconds"] != 3.0 {
		t.Errorf("itr is %v", itr)
	}
	site := tree["interfaces"].(map[string]any)["site"].([]any)[0].(map[string]any)
	if site["interface"] != "lan0" || site["instance_id"] != 0.0 {
		t.Errorf("the first site interface is %v", site)
	}
	sets := parseFile(t, everythingFile).LocatorSets
	for name := range tree["locator_sets"].(map[string]any) { // names are the user's
		if sets[name] == nil {
			t.Errorf("the file has no locator-set %s", name)
		}
	}
	if len(sets) == 0 {
		t.Error("no locator-set: nothing compared")
	}
	for _, key := range keysBelow(tree, "") {
		if !strings.HasPrefix(key, "locator_sets.") && strings.Contains(key, "-") {
			t.Errorf("the key %s has a hyphen", key)
		}
	}
}

// keysBelow lists the keys of a JSON value with those that lead there.
func keysBelow(value any, path string) (keys []string) {
	switch value := value.(type) {
	case map[string]any:
		for key, below := range value {
			keys = append(append(keys, path+key), keysBelow(below, path+key+".")...)
		}
	case []any:
		for _, below := range value {
			keys = append(keys, keysBelow(below, path)...)
		}
	}
	return keys
}

// TestJSONHasSeconds: every length of time of the configuration is a number of seconds in JSON, the TTLs in minutes too.
func TestJSONHasSeconds(t *testing.T) {
	encoded, err := json.Marshal(parseFile(t, everythingFile))
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(encoded, &tree); err != nil {
		t.Fatal(err)
	}
	keys := keysBelow(tree, "")
	for _, key := range modelKeys.All() {
		name := strings.ReplaceAll(key.Key, "-", "_")
		isLength := func(k string) bool { return strings.HasSuffix("."+k, "."+name+"_seconds") }
		if key.Tag.Get("unit") != "" && slices.ContainsFunc(keys, func(k string) bool { return strings.HasSuffix("."+k, "."+name) }) {
			t.Errorf("%s is not in seconds", key.Path)
		}
		if key.Tag.Get("unit") != "" && !slices.ContainsFunc(keys, isLength) {
			t.Errorf("no %s_seconds for %s", name, key.Path)
		}
	}
}

func TestPosition(t *testing.T) {
	c := mustParse(t, "interfaces:\n  site: [lan0]\n  core: [wan0]\nitr:\n  map-resolvers: [192.0.2.1]\netr:\n  local-eids:\n    - eid: 10.1.0.0/16\n")
	for _, p := range []struct {
		path []any
		want string
	}{
		{[]any{"interfaces", "site", 0}, "f:2:10"},
		{[]any{"interfaces", "core"}, "f:3:9"},
		{[]any{"etr", "local-eids", 0, "eid"}, "f:8:12"},
		{[]any{"etr", "local-eids", 0, "rlocs", 3, "address"}, "f:8:7"}, // a default: the section it belongs to
		{[]any{"control", "port"}, "f:1:1"},
		{nil, "f:1:1"},
	} {
		if got := c.Position(p.path...).String(); got != p.want {
			t.Errorf("%v is at %s, want %s", p.path, got, p.want)
		}
	}
	problem := c.Problem("interface lan0 does not exist: `ip link` lists what does", "interfaces", "site", 0)
	if want := "f:2:10: interface lan0 does not exist: `ip link` lists what does\n      site: [lan0]\n             ^"; problem.Detail() != want {
		t.Errorf("got\n%s\nwant\n%s", problem.Detail(), want)
	}
}

func TestProblemsAreErrors(t *testing.T) {
	_, err := Parse("f", []byte("itr: {miss-policy: x}\nlogging: {level: y}\n"))
	var problems *source.Problems
	if !errors.As(err, &problems) || len(problems.List) != 2 {
		t.Fatalf("got %v", err)
	}
	var one source.Problem
	if !errors.As(err, &one) || one.Path != "itr.miss-policy" || one.Line != 1 || one.Column != 20 {
		t.Errorf("the first is %+v", one)
	}
}

func TestRefusedBeforeYAML(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"not UTF-8":    {"itr: \xff\n", "f:1:6: octet 0xff is not UTF-8: save the file as UTF-8"},
		"UTF-16":       {"\xff\xfei\x00t\x00r\x00", "f:1:1: octet 0xff is not UTF-8: save the file as UTF-8"},
		"NUL":          {"itr: {}\n\x00", "f:2:1: control character 0x00: remove it"},
		"a bare CR":    {"itr:\r  miss-policy: drop\n", "f:1:5: control character 0x0d: remove it"},
		"escape codes": {"# \x1b[31mred\n", "f:1:3: control character 0x1b: remove it"},
		"too large":    {strings.Repeat("# comment\n", maxFileOctets/10+1), "f: the file has more than 33554432 octets: that is the limit of a configuration"},
	} {
		if _, err := Parse("f", []byte(c.text)); err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

func TestWindowsLineEndings(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(examplesDirectory, "xtr.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	c := mustParse(t, strings.ReplaceAll(string(text), "\n", "\r\n"))
	if changes := Diff(parseFile(t, filepath.Join(examplesDirectory, "xtr.yaml")), c); changes != nil {
		t.Errorf("line endings change the meaning: %v", changes)
	}
}

// TestBombs: input that grows when it is expanded, or costs more than its size.
func TestBombs(t *testing.T) {
	for name, text := range map[string]string{
		"aliases":   "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\n",
		"brackets":  strings.Repeat("[", 1<<18),
		"braces":    strings.Repeat("{a: ", 1<<16),
		"dashes":    strings.Repeat("- ", 1<<17),
		"questions": strings.Repeat("? ", 1<<17),
		"anchors":   "a: " + strings.Repeat("&a ", 1<<18),
		"tags":      "a: " + strings.Repeat("!!a ", 1<<18),
		"indents":   indents(1000),
	} {
		if _, err := Parse("f", []byte(text)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func indents(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

// TestLargeMapServer: thousands of sites are read in well under the time a person
// notices.
func TestLargeMapServer(t *testing.T) {
	var b strings.Builder
	b.WriteString("map-server:\n  sites:\n")
	for i := range 5000 {
		fmt.Fprintf(&b, "    - name: site%d\n      authentication-keys: [{auth-key-value: key-of-site-%d}]\n      eid-prefixes: [{eid: 10.%d.%d.0/24}]\n", i, i, i/256, i%256)
	}
	c := mustParse(t, b.String())
	if len(c.MapServer.Sites) != 5000 || len(c.Warnings) > 0 {
		t.Errorf("%d sites, warnings %v", len(c.MapServer.Sites), c.Warnings)
	}
}

func TestTheSameKeyMayBeWrittenInManyWays(t *testing.T) {
	for text, want := range map[string]Algorithm{
		"hmac-sha-1-96": 1, "HMAC-SHA-1-96-None": 1, "1": 1,
		"hmac-sha-256-128": 2, "hmac-sha-256-128-none": 2, "2": 2,
		"hmac-sha-256-128+hkdf-sha256": 3, "hmac-sha-256-128-HKDF-SHA2562": 3, "HMAC-SHA256-128+HKDF-SHA256": 3, "3": 3,
	} {
		var a Algorithm
		if err := a.UnmarshalText([]byte(text)); err != nil || a != want {
			t.Errorf("%s: %v, %v", text, a, err)
		}
	}
}

func TestDurationsAndRates(t *testing.T) {
	for text, want := range map[string]time.Duration{"0s": 0, "5s": 5 * time.Second, "90s": 90 * time.Second, "2m": 2 * time.Minute, "1h": time.Hour, "250ms": 250 * time.Millisecond} {
		if d, ok := codec.ParseDuration(text); !ok || d != want {
			t.Errorf("%s is %v, %v", text, d, ok)
		}
		if back, _ := codec.ParseDuration(codec.DurationText(want)); back != want {
			t.Errorf("%v is printed as %s", want, codec.DurationText(want))
		}
	}
	for _, text := range []string{"", "s", "5", "5 s", "-5s", "1h30m", "1.5s", "5d", "5sm", "99999999999h", "+5s"} {
		if d, ok := codec.ParseDuration(text); ok {
			t.Errorf("%q is accepted as %v", text, d)
		}
	}
	for text, want := range map[string]float64{"20000/s": 20000, "1/2s": 0.5, "60/m": 1, "1/250ms": 4} {
		var f Frequency
		if err := f.UnmarshalText([]byte(text)); err != nil || f.PerSecond() != want || f.String() != text {
			t.Errorf("%s is %v (%v), %v", text, f, f.PerSecond(), err)
		}
	}
	for _, text := range []string{"", "/", "5", "5/", "/s", "0/s", "-1/s", "5/0s", "1/2h", "99999999/s", "5/s/s"} {
		var f Frequency
		if err := f.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is accepted as %v", text, f)
		}
	}
}

func TestNearest(t *testing.T) {
	list := []string{"map-resolvers", "miss-policy", "wait", "map-cache"}
	for word, want := range map[string]string{
		"map-resolver": "map-resolvers", "map_resolvers": "map-resolvers", "Map-Cache": "map-cache",
		"wiat": "wait", "weight": "", "mss-polcy": "miss-policy", "x": "", "": "",
	} {
		if got := codec.Nearest(word, list); got != want {
			t.Errorf("%q is near %q, want %q", word, got, want)
		}
	}
}

// TestHintsNameKeys: every word of the table of other names leads to a key.
func TestHintsNameKeys(t *testing.T) {
	var known []string
	for _, k := range modelKeys.All() {
		known = append(known, k.Key)
	}
	for word, keys := range otherNames {
		for _, key := range keys {
			if !slices.Contains(known, key) {
				t.Errorf("%s leads to %s, which is no key", word, key)
			}
		}
	}
}

// TestModelIsWellTagged: exported fields have keys, and ranges can be read.
func TestModelIsWellTagged(t *testing.T) {
	for _, k := range modelKeys.All() {
		if k.Type == reflect.TypeFor[time.Duration]() {
			from, to, _ := strings.Cut(k.Tag.Get("range"), "..")
			low, ok1 := codec.ParseDuration(from)
			high, ok2 := codec.ParseDuration(to)
			if !ok1 || !ok2 || low >= high || k.Tag.Get("unit") != "seconds" {
				t.Errorf("%s: range %q, unit %q", k.Path, k.Tag.Get("range"), k.Tag.Get("unit"))
			}
		}
		if k.Type.Kind() == reflect.Int && k.Tag.Get("range") == "" {
			t.Errorf("%s has no range", k.Path)
		}
		if (k.Type.Kind() == reflect.Slice || k.Type.Kind() == reflect.Map) && k.Tag.Get("max") == "" {
			t.Errorf("%s has no max", k.Path)
		}
	}
}

func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob(examplesDirectory + "/*.yaml")
	for _, file := range append(files, everythingFile) {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	_, mistakes := readMistakes(f)
	for _, m := range mistakes {
		f.Add([]byte(m.yaml))
	}
	f.Add([]byte("a: &x [*x]\n"))
	f.Add([]byte("itr:\n\t- {a: 'b, c\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Parse("f", text)
		if err != nil {
			var problems *source.Problems
			if !errors.As(err, &problems) || len(problems.List) == 0 || len(problems.List) > source.MaxProblems {
				t.Fatalf("an error without problems: %v", err)
			}
			_ = problems.Detail()
			return
		}
		printed := strings.ReplaceAll(string(c.YAML()), `"`+SecretMask+`"`, "put-back")
		again, err := Parse("printed", []byte(printed))
		if err != nil {
			t.Fatalf("what is printed is refused: %v\n%s", err, printed)
		}
		if printed != strings.ReplaceAll(string(again.YAML()), `"`+SecretMask+`"`, "put-back") {
			t.Fatalf("what is printed means something else:\n%s", printed)
		}
	})
}
