// SPDX-License-Identifier: Apache-2.0

package docs

// What a remedy tells the reader to do can be done: each key exists, each form is one that `loci check` accepts, each command and
// option exists, and so does each page and each counter.

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"loci/config"
	"loci/config/source"
	"loci/internal/commandtest"
)

// readElsewhere are texts that no literal has: where, and what they are.
var readElsewhere = map[string]string{
	"config/codec/addresses.go":         "the EID-Prefix without host bits, by lisp.ParsePrefix",
	"daemon/answers/explainlocators.go": "the reason of a hop, by its own name",
}

// ordinaryWords have a hyphen, and are no keys.
var ordinaryWords = strings.Fields("more-specifics own-next-hop not-in-policy no-action")

// ordinaryBrackets begin no form.
var ordinaryBrackets = strings.NewReplacer("{} for the defaults", "", "[ADDRESS]:PORT", "", "["+variable+"]:"+variable, "", "[2001:db8::1]:4342", "", "[::]", "")

// otherPrograms may stand in a command.
var otherPrograms = strings.Fields("ip ethtool openssl uuidgen chmod nft sysctl systemctl journalctl nsenter chronyc timedatectl")

var (
	verb         = regexp.MustCompile(`%[-+# 0]*[0-9]*(\.[0-9]+)?[a-zA-Z]`)
	quoted       = regexp.MustCompile("`([^`]*)`")
	bareCommand  = regexp.MustCompile(`\bloci [a-z]`)
	option       = regexp.MustCompile(`--[a-z][a-z-]+`)
	counterName  = regexp.MustCompile(`\b[a-z][a-z0-9_]*_total\b`)
	pageName     = regexp.MustCompile(`\b(?:docs/)?([a-z0-9-]+\.md)`)
	formStart    = regexp.MustCompile(`([a-z][a-z0-9]*(?:[-.][a-z0-9]+)*): `)
	dottedKey    = regexp.MustCompile(`(?:^|[\s(])([a-z][a-z-]*(?:\.[a-z][a-z-]*)+)\b`)
	hyphenedWord = regexp.MustCompile(`(?:^|[\s("'])([a-z][a-z0-9]*(?:-[a-z0-9]+)+)\b`)
	keyItem      = regexp.MustCompile("(?m)^- `([^`]+)` \\(")
	sampleWord   = regexp.MustCompile(`\b[A-Z][A-Z-]+\b|\.\.\.|` + variable)
)

// knownKeys are the keys of the configuration: their paths without what is a list, and their names. Package config holds the document to them.
type knownKeys struct {
	paths map[string][]string // by name
	words map[string]bool     // that a value may be
}

func readKeys(t *testing.T) knownKeys {
	t.Helper()
	known := knownKeys{map[string][]string{}, map[string]bool{}}
	sections, naming := []string(nil), false
	for _, line := range strings.Split(read(t, "configuration.md"), "\n") {
		heading := strings.HasPrefix(line, "##")
		naming = naming && line != "" || strings.HasPrefix(line, "For `")
		if heading {
			sections = nil
		}
		if heading || naming {
			for _, section := range quoted.FindAllStringSubmatch(line, -1) {
				sections = append(sections, section[1]+".")
			}
		}
		if line == "## Top level" {
			sections = []string{""}
		}
		item := keyItem.FindStringSubmatch(line)
		if item == nil {
			continue
		}
		for _, section := range sections {
			known.paths[item[1]] = append(known.paths[item[1]], section+item[1])
		}
		for _, word := range quoted.FindAllStringSubmatch(line, -1) {
			known.words[word[1]] = true
		}
	}
	return known
}

// hasPath reports whether a dotted path is that of a key, or the end of one.
func (k knownKeys) hasPath(dotted string) bool {
	plain := strings.NewReplacer("[]", "")
	for _, path := range k.paths[dotted[strings.LastIndexByte(dotted, '.')+1:]] {
		if path = plain.Replace(path); path == dotted || strings.HasSuffix(path, "."+dotted) {
			return true
		}
	}
	return false
}

// otherSections stand beside a form, which needs them.
var otherSections = []string{"interfaces: {core: [eth0], site: [eth1]}", "itr: {map-resolvers: [192.0.2.1]}", "etr: {local-eids: [{eid: 10.8.0.0/16}]}"}

// documentAt is a configuration with a value at a path.
func documentAt(path, value string) string {
	parts := strings.Split(path, ".")
	text := value
	for i := len(parts) - 1; i >= 0; i-- {
		name, isList := strings.CutSuffix(parts[i], "[]")
		if isList {
			text = "[" + text + "]"
		}
		if i > 0 {
			text = "{" + name + ": " + text + "}"
		} else {
			text = name + ": " + text + "\n"
		}
	}
	for _, other := range otherSections {
		if name, _, _ := strings.Cut(other, ":"); name != parts[0] {
			text += other + "\n"
		}
	}
	return strings.NewReplacer("NAME: ", "sample: ").Replace(text)
}

// samples stand for the words in capital letters of a form.
var samples = map[string]string{
	"ADDRESS": "192.0.2.9", "PREFIX": "10.9.0.0/16", "NAME": "eth9", "ID": "0123456789abcdef0123456789abcdef", "PORT": "4343", "KEY": "0123456789abcdef0123456789abcdef",
	"...": "eth9", variable: "7", "RLOC": "192.0.2.9",
}

// accepted tries a form at each place that its key has; it returns what is wrong at the last one if none accepts it.
func (k knownKeys) accepted(key, value string) (wrong string) {
	value = sampleWord.ReplaceAllStringFunc(value, func(word string) string {
		if sample, ok := samples[word]; ok {
			return sample
		}
		return word
	})
	wrong = "there is no such key"
	for _, path := range k.paths[key[strings.LastIndexByte(key, '.')+1:]] {
		if plain := strings.ReplaceAll(path, "[]", ""); plain != key && !strings.HasSuffix(plain, "."+key) {
			continue
		}
		if wrong = problemAt(documentAt(path, value), strings.NewReplacer("[]", "[0]", "NAME", "sample").Replace(path)); wrong == "" {
			return ""
		}
	}
	return wrong
}

// problemAt is the first problem of a configuration at a path or below it.
func problemAt(document, path string) string {
	_, err := config.Parse("sample", []byte(document))
	var problems *source.Problems
	if !errors.As(err, &problems) {
		return ""
	}
	for _, p := range problems.List {
		if strings.HasPrefix(p.Path, path) || p.Path == "" && strings.Contains(p.Message, "YAML") {
			return p.Message + ": " + p.Hint
		}
	}
	return ""
}

// form is a key with a value, as the configuration has it.
type form struct{ key, value string }

// formsOf finds what is written as in a configuration, and returns the rest of the text. Outside of backquotes, a form has brackets.
func (k knownKeys) formsOf(text string, isQuoted bool) (forms []form, rest string) {
	for {
		at := formStart.FindStringSubmatchIndex(text)
		if at == nil {
			return forms, rest + text
		}
		key, behind := text[at[2]:at[3]], text[at[1]:]
		rest, text = rest+text[:at[0]], behind
		length := valueLength(behind)
		if bracketed := strings.HasPrefix(behind, "[") || strings.HasPrefix(behind, "{"); !bracketed && !isQuoted || length == 0 {
			rest += key + ": "
			continue
		}
		forms = append(forms, form{key, behind[:length]})
		text = behind[length:]
	}
}

// valueLength is that of the value with which a text begins: a word, or what stands within brackets.
func valueLength(text string) int {
	depth := 0
	for i, r := range text {
		switch {
		case r == '[' || r == '{':
			depth++
		case r == ']' || r == '}':
			if depth--; depth <= 0 {
				return i + 1
			}
		case depth == 0 && strings.ContainsRune(" ,;)`", r):
			return i
		}
	}
	return len(text)
}

// commandHelp asks the built commands for their help.
type commandHelp struct {
	directory string
	known     map[string]string
}

// of is the help of a command, empty where there is none.
func (c *commandHelp) of(words ...string) string {
	name := strings.Join(words, " ")
	if help, ok := c.known[name]; ok {
		return help
	}
	output, err := exec.Command(c.directory+"/loci", append(slices.Clone(words), "--help")...).Output()
	usage := regexp.MustCompile(`(?m)^  loci ` + regexp.QuoteMeta(name) + `( |$)`)
	if err != nil || !usage.Match(output) {
		output = nil
	}
	c.known[name] = string(output)
	return c.known[name]
}

// wrong says what is wrong with a command.
func (c *commandHelp) wrong(command string) string {
	words := strings.Fields(command)
	if words[0] != "loci" {
		if slices.Contains(otherPrograms, words[0]) {
			return ""
		}
		return "neither a command nor a form of the configuration"
	}
	help := ""
	if len(words) > 1 {
		help = c.of(words[1])
	}
	if len(words) > 2 && strings.Contains(help, "Available Commands:") {
		help = c.of(words[1], words[2])
	}
	if help == "" {
		return "there is no such command"
	}
	for _, o := range option.FindAllString(command, -1) {
		if !strings.Contains(help, " "+o+" ") {
			return "the command has no option " + o
		}
	}
	return ""
}

// mistakes are what is wrong with a remedy; commands are tried where there are some.
func (k knownKeys) mistakes(c *commandHelp, counters, text string) (list []string) {
	add := func(what, why string) {
		if why != "" {
			list = append(list, what+": "+why)
		}
	}
	rest := quoted.ReplaceAllStringFunc(text, func(span string) string {
		span = strings.Trim(span, "`")
		forms, other := k.formsOf(span, true)
		for _, f := range forms {
			add(f.key+": "+f.value, k.accepted(f.key, f.value))
		}
		if len(forms) == 0 && c != nil {
			add(span, c.wrong(other))
		}
		return " "
	})
	if bareCommand.MatchString(rest) {
		add(bareCommand.FindString(rest)+variable, "put commands into backquotes")
	}
	forms, rest := k.formsOf(rest, false)
	for _, f := range forms {
		add(f.key+": "+f.value, k.accepted(f.key, f.value))
	}
	if bare := ordinaryBrackets.Replace(rest); strings.ContainsAny(bare, "[{") {
		add(bare[strings.IndexAny(bare, "[{"):], "name the key of that form")
	}
	for _, match := range dottedKey.FindAllStringSubmatch(rest, -1) {
		if key := match[1]; !strings.HasSuffix(key, ".md") && !strings.HasPrefix(key, "net.") && !k.hasPath(key) {
			add(key, "there is no such key")
		}
	}
	for _, match := range hyphenedWord.FindAllStringSubmatch(rest, -1) {
		if word := match[1]; k.paths[word] == nil && !k.words[word] && !slices.Contains(ordinaryWords, word) {
			add(word, "there is no such key, and it is no ordinary word (ordinaryWords)")
		}
	}
	for _, name := range counterName.FindAllString(text, -1) {
		if !strings.Contains(counters, "`"+name+"`") {
			add(name, "there is no such counter")
		}
	}
	for _, match := range pageName.FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(match[1]); err != nil {
			add(match[1], "there is no such page")
		}
	}
	return list
}

// TestCommandsOfRemedies: they exist, and so do their options.
func TestCommandsOfRemedies(t *testing.T) {
	help := &commandHelp{t.TempDir(), map[string]string{}}
	if err := commandtest.Build(help.directory, "loci"); err != nil {
		t.Fatal(err)
	}
	checkRemedies(t, help)
}

// TestRepositoryRemedies needs no command built.
func TestRepositoryRemedies(t *testing.T) { checkRemedies(t, nil) }

func checkRemedies(t *testing.T, help *commandHelp) {
	t.Helper()
	known, counters := readKeys(t), read(t, "counters.md")
	texts := readRemedies(t)
	if len(texts.found) < 200 {
		t.Fatalf("only %d texts are found", len(texts.found))
	}
	for _, place := range texts.unreadable {
		if file, _, _ := strings.Cut(place, ":"); readElsewhere[file] == "" {
			t.Errorf("%s: write the remedy as a literal text: no test can read this one", place)
		}
	}
	for _, r := range texts.found {
		for _, m := range known.mistakes(help, counters, r.text) {
			t.Errorf("%s: %q: %s", r.place, r.text, m)
		}
	}
}

func TestMistakesOfRemedies(t *testing.T) {
	known, counters := readKeys(t), read(t, "counters.md")
	help := &commandHelp{known: map[string]string{"netcheck": "  --json  x", "show": "Available Commands:", "show nothing": "", "nothing": ""}}
	for text, wrong := range map[string]string{
		"with accept-more-specifics if it is a part of one":        "accept-more-specifics: there is no such key",
		"with more-specifics-accepted if it is a part of one":      "",
		"compare etr.map-server with the site":                     "etr.map-server: there is no such key",
		"compare etr.map-servers, or map-cache.mappings":           "",
		"add map-servers: [ADDRESS]":                               "a single value stands here",
		"add `sites: [{name: NAME}]`":                              `"authentication-keys" is missing`,
		"add map-resolvers: [ADDRESS]":                             "",
		"write `registration-interval: never`":                     "is not a duration",
		"write `registration-interval: 20s`":                       "",
		"add [{address: ADDRESS}]":                                 "name the key of that form",
		"use `loci nothing`":                                       "there is no such command",
		"use `loci show nothing`":                                  "there is no such command",
		"use `loci netcheck --fast`":                               "no option --fast",
		"use `loci netcheck --json`, `ip neigh show dev eth0`":     "",
		"use loci netcheck":                                        "put commands into backquotes",
		"use `frobnicate eth0`":                                    "neither a command nor a form",
		"see docs/nothing.md":                                      "there is no such page",
		"see docs/xdp.md: refused_zero_checksum_total counts them": "",
		"refused_nothing_total counts them":                        "there is no such counter",
	} {
		list := known.mistakes(help, counters, text)
		if wrong == "" && len(list) > 0 || wrong != "" && (len(list) != 1 || !strings.Contains(list[0], wrong)) {
			t.Errorf("%q: %q, want %q", text, list, wrong)
		}
	}
}
