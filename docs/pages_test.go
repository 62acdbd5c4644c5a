// SPDX-License-Identifier: Apache-2.0

package docs

// The pages of recipes: what they show is right. Configurations are checked, nftables' rules are loaded, systemd
// verifies its files, Python runs at a data plane, and commands of Loci exist. Commands of other programs are those
// of pageprograms_test.go.

import (
	"bytes"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"loci/config"
	"loci/internal/commandtest"
	"loci/internal/testnet"
)

// recipePages are those whose blocks are checked here.
var recipePages = []string{"containers.md", "faq.md", "firewall.md", "glossary.md", "networkd.md", "python.md", "sizing.md", "troubleshooting.md", "upgrade.md"}

var (
	fence = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")
	// fileOf names the file that a block is, in its first line.
	fileOf = regexp.MustCompile(`^# (/\S+)`)
)

// pageBlock is a block of a page.
type pageBlock struct {
	page, language, text string
	line                 int
}

// file is where the block belongs, by its first line.
func (b pageBlock) file() string {
	if match := fileOf.FindStringSubmatch(b.text); match != nil {
		return match[1]
	}
	return ""
}

func blocksOf(t *testing.T, languages ...string) (blocks []pageBlock) {
	t.Helper()
	for _, page := range recipePages {
		document := read(t, page)
		for _, at := range fence.FindAllStringSubmatchIndex(document, -1) {
			b := pageBlock{page, document[at[2]:at[3]], document[at[4]:at[5]], 1 + strings.Count(document[:at[0]], "\n")}
			if len(languages) == 0 || slices.Contains(languages, b.language) {
				blocks = append(blocks, b)
			}
		}
	}
	return blocks
}

// TestRecipeBlocks: each block has a language that a test here knows.
func TestRecipeBlocks(t *testing.T) {
	known := []string{"yaml", "nft", "ini", "python", "sh", "text", "dockerfile"}
	for _, b := range blocksOf(t) {
		if !slices.Contains(known, b.language) {
			t.Errorf("%s:%d: no test knows blocks of %q", b.page, b.line, b.language)
		}
	}
}

// TestRecipeConfigurations: `loci check` accepts them, and warns of the keys of examples at most. Other YAML is that
// of its file.
func TestRecipeConfigurations(t *testing.T) {
	for _, b := range blocksOf(t, "yaml") {
		if file := b.file(); file != "" && !strings.HasPrefix(file, "/etc/loci/") {
			if err := yaml.NewDecoder(strings.NewReader(b.text)).Decode(new(any)); err != nil {
				t.Errorf("%s:%d: %v", b.page, b.line, err)
			}
			continue
		}
		c, err := config.Parse(b.page, []byte(b.text))
		if err != nil {
			t.Errorf("%s:%d: %v", b.page, b.line, err)
			continue
		}
		for _, warning := range c.Warnings {
			if !strings.Contains(warning.Message, "stands in Loci's examples") {
				t.Errorf("%s:%d: %v", b.page, b.line, warning)
			}
		}
	}
}

// TestRecipeRules: nftables loads the rules, in a network namespace.
func TestRecipeRules(t *testing.T) {
	testnet.RequireRoot(t)
	testnet.RequireProgram(t, "nft")
	ns, err := testnet.ForTest(t).Namespace("filter")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blocksOf(t, "nft") {
		var output bytes.Buffer
		cmd := exec.Command("nft", "-f", "-")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(b.text), &output, &output
		if err := ns.Start(cmd); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s:%d: %v\n%s", b.page, b.line, err, output.String())
		}
	}
}

// TestRecipeCommands: the shell parses them, and commands of Loci exist, with their options.
func TestRecipeCommands(t *testing.T) {
	help := &commandHelp{t.TempDir(), map[string]string{}}
	if err := commandtest.Build(help.directory, "loci", "loci-lab"); err != nil {
		t.Fatal(err)
	}
	for _, b := range blocksOf(t, "sh") {
		check := exec.Command("bash", "-n")
		check.Stdin = strings.NewReader(b.text)
		if output, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s:%d: %v\n%s", b.page, b.line, err, output)
		}
		for _, command := range commandsOf(b.text) {
			if !strings.HasPrefix(command, "loci ") {
				continue
			}
			if why := help.wrongOfEither(command); why != "" {
				t.Errorf("%s:%d: %s: %s", b.page, b.line, command, why)
			}
		}
	}
	for _, page := range recipePages {
		for _, span := range quoted.FindAllStringSubmatch(fence.ReplaceAllString(read(t, page), ""), -1) {
			if command := strings.ReplaceAll(span[1], "\n", " "); strings.HasPrefix(command, "loci ") {
				if why := help.wrongOfEither(command); why != "" {
					t.Errorf("%s: `%s`: %s", page, command, why)
				}
			}
		}
	}
}

// ofLab are the commands that loci-lab runs.
var ofLab = regexp.MustCompile(`^loci (bench|demo|lab|sim)( [a-z]+)?`)

// wrongOfEither says what is wrong with a command of loci, or with one that loci-lab runs for it.
func (c *commandHelp) wrongOfEither(command string) string {
	words := strings.Fields(ofLab.FindString(command))
	if len(words) == 0 {
		return c.wrong(command)
	}
	words[0] = "loci-lab"
	output, err := exec.Command(filepath.Join(c.directory, "loci-lab"), append(slices.Clone(words[1:]), "--help")...).Output()
	if err != nil || !regexp.MustCompile(`(?m)^  `+strings.Join(words, " ")+`( |$)`).Match(output) {
		return "loci-lab has no such command"
	}
	return ""
}

// commandsOf are the commands of a block, one a line, without comments, prompts and what continues a line.
func commandsOf(text string) (commands []string) {
	text = strings.ReplaceAll(text, "\\\n", " ")
	for _, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, " #")
		for _, part := range strings.Split(line, " | ") {
			if part = strings.Join(strings.Fields(part), " "); part != "" && !strings.HasPrefix(part, "#") {
				commands = append(commands, part)
			}
		}
	}
	return commands
}

// TestRecipeKeys: each key of the configuration and each kind of problem that the pages name exists.
func TestRecipeKeys(t *testing.T) {
	known, counters := readKeys(t), read(t, "counters.md")
	for _, page := range recipePages {
		for _, span := range quoted.FindAllStringSubmatch(fence.ReplaceAllString(read(t, page), ""), -1) {
			text := strings.ReplaceAll(span[1], "\n", " ")
			if strings.Contains(text, " ") || strings.ContainsAny(text, "/()$=<>*") {
				continue
			}
			if dotted := dottedKey.FindStringSubmatch(text); dotted != nil && dotted[1] == text && known.paths[text[strings.LastIndexByte(text, '.')+1:]] != nil && !known.hasPath(text) {
				t.Errorf("%s: there is no key %s", page, text)
			}
			if counterName.MatchString(text) && !strings.Contains(counters, "`"+text+"`") {
				t.Errorf("%s: there is no counter %s", page, text)
			}
		}
	}
}

// TestTroubleshootingHasEachProblem: each kind of problem of status.md stands in troubleshooting.md, with the command
// that decides.
func TestTroubleshootingHasEachProblem(t *testing.T) {
	page := regexp.MustCompile(`\n {2,}`).ReplaceAllString(read(t, "troubleshooting.md"), " ")
	status, _, _ := strings.Cut(read(t, "status.md"), "\n## loci ping")
	kinds := regexp.MustCompile("(?m)^\\| (`[a-z`, -]+`) \\|").FindAllStringSubmatch(status, -1)
	if len(kinds) < 25 {
		t.Fatalf("status.md has %d rows of kinds", len(kinds))
	}
	for _, row := range kinds {
		for _, kind := range quoted.FindAllStringSubmatch(row[1], -1) {
			if !regexp.MustCompile("(?m)^- .*`" + kind[1] + "`.*: .*`").MatchString(page) {
				t.Errorf("troubleshooting.md does not have %s", kind[1])
			}
		}
	}
}

// TestRecipeUnits: systemd verifies units and what is dropped into Loci's, and knows each key of its other files. The
// kernel takes what sysctl reads, and NetworkManager knows its keys.
func TestRecipeUnits(t *testing.T) {
	testnet.RequireProgram(t, "systemd-analyze")
	for _, b := range blocksOf(t, "ini") {
		switch file := b.file(); {
		case strings.HasPrefix(file, "/etc/systemd/system/"):
			verifyUnit(t, b)
		case strings.HasPrefix(file, "/etc/systemd/network"):
			knownToNetworkd(t, b)
		case strings.HasPrefix(file, "/etc/NetworkManager/"):
			knownToNetworkManager(t, b)
		case strings.HasPrefix(file, "/etc/sysctl.d/"):
			setBySysctl(t, b)
		default:
			t.Errorf("%s:%d: say in the first line which file it is", b.page, b.line)
		}
	}
}

// verifyUnit verifies a unit, or Loci's with what the block adds to it.
func verifyUnit(t *testing.T, b pageBlock) {
	t.Helper()
	directory := t.TempDir()
	unit := filepath.Join(directory, "loci.service")
	write := func(file, text string) {
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(unit, read(t, "../packaging/debian/loci.service"))
	file := filepath.Join(directory, strings.TrimPrefix(b.file(), "/etc/systemd/system/"))
	write(file, b.text)
	if strings.HasSuffix(file, ".service") {
		unit = file
	}
	verify := exec.Command("systemd-analyze", "verify", "--man=no", unit)
	verify.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+directory+":")
	output, _ := verify.CombinedOutput()
	for _, line := range strings.Split(string(output), "\n") {
		if strings.Contains(line, directory) && !strings.Contains(line, "is not executable") {
			t.Errorf("%s:%d: %s", b.page, b.line, line)
		}
	}
}

// knownToNetworkd looks for each key of a file of systemd-networkd in its program, which has them with their
// sections.
func knownToNetworkd(t *testing.T, b pageBlock) {
	t.Helper()
	program, err := os.ReadFile("/lib/systemd/systemd-networkd")
	if err != nil {
		t.Logf("%s:%d: not checked: %v", b.page, b.line, err)
		return
	}
	section := ""
	for _, line := range strings.Split(b.text, "\n") {
		if name, isSection := strings.CutPrefix(line, "["); isSection {
			section = strings.TrimSuffix(name, "]")
		} else if key, _, isKey := strings.Cut(line, "="); isKey && !strings.HasPrefix(line, "#") && !bytes.Contains(program, []byte(section+"."+key+"\x00")) {
			t.Errorf("%s:%d: systemd-networkd does not know %s of [%s]", b.page, b.line, key, section)
		}
	}
}

// pageLimit ends a program of a page that hangs.
const pageLimit = 30 * time.Second

// TestPythonPage: its programs print what the page says, at the router of its configuration.
func TestPythonPage(t *testing.T) {
	testnet.RequireRoot(t)
	testnet.RequireProgram(t, "python3")
	directory := t.TempDir()
	if err := commandtest.Build(directory, "loci"); err != nil {
		t.Fatal(err)
	}
	router := startPageRouter(t, directory)
	document := strings.ReplaceAll(read(t, "python.md"), "/run/loci", directory)
	programs := regexp.MustCompile("(?ms)^```python\n(.*?)^```\n\n```text\n(.*?)^```$").FindAllStringSubmatch(document, -1)
	if len(programs) != strings.Count(document, "```python") || len(programs) == 0 {
		t.Fatalf("%d programs have their output beside them", len(programs))
	}
	for _, program := range programs {
		var output bytes.Buffer
		python := exec.Command("timeout", pageLimit.String(), "python3", "-c", program[1])
		python.Env = append(os.Environ(), "PYTHONPATH=../mapsock/python")
		python.Stdout, python.Stderr = &output, &output
		if err := router.Start(python); err != nil {
			t.Fatal(err)
		}
		if err := python.Wait(); err != nil || output.String() != program[2] {
			t.Errorf("%v:\n%s\nprints\n%s\nnot\n%s", err, program[1], output.String(), program[2])
		}
	}
}

// startPageRouter runs the router of python.md in a network namespace, with the data plane in user space.
func startPageRouter(t *testing.T, directory string) *testnet.Namespace {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	network := testnet.ForTest(t)
	router, err := network.Namespace("router")
	must(err)
	others, err := network.Namespace("others")
	must(err)
	for link, address := range map[string]string{"eth0": "198.51.100.1/24", "eth1": "10.1.0.1/24"} {
		must(testnet.Connect(testnet.End{Namespace: router, Name: link, Addresses: []netip.Prefix{netip.MustParsePrefix(address)}}, testnet.End{Namespace: others, Name: link}))
	}
	must(router.AddRoute(testnet.Route{Destination: netip.MustParsePrefix("0.0.0.0/0"), Via: netip.MustParseAddr("198.51.100.2")}))
	text := yamlBlock.FindStringSubmatch(read(t, "python.md"))[1]
	text = strings.Replace(text, "datapath:\n", "control: {socket: /run/loci/control.sock}\ndatapath:\n  engine: user\n", 1)
	file := filepath.Join(directory, "router.yaml")
	must(os.WriteFile(file, []byte(strings.ReplaceAll(text, "/run/loci", directory)), 0o600))
	var log bytes.Buffer
	daemon := exec.Command(filepath.Join(directory, "loci"), "run", "--config", file)
	daemon.Stdout, daemon.Stderr = &log, &log
	must(router.Start(daemon))
	t.Cleanup(func() {
		_ = daemon.Process.Kill()
		_ = daemon.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	for deadline := time.Now().Add(pageLimit); ; time.Sleep(50 * time.Millisecond) {
		output, _ := exec.Command(filepath.Join(directory, "loci"), "show", "status", "--json", "--socket", filepath.Join(directory, "control.sock")).Output()
		if bytes.Contains(output, []byte(`"ready": true`)) || bytes.Contains(output, []byte(`"ready":true`)) {
			return router
		}
		if time.Now().After(deadline) {
			t.Fatalf("the router does not become ready: %s", output)
		}
	}
}
