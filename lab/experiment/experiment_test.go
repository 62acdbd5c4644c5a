// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"loci/internal/commandtest"
	"loci/internal/testnet"
	"loci/lab"
)

// directoryOfCommands has the command loci once a test needed it; TestMain removes it.
var directoryOfCommands string

var buildCommands = sync.OnceValue(func() (err error) {
	if directoryOfCommands, err = os.MkdirTemp("", "loci-experiment-test-"); err != nil {
		return err
	}
	return commandtest.Build(directoryOfCommands, "loci")
})

// runFileVariable has this program run an experiment's file in place of the tests.
const runFileVariable = "EXPERIMENT_FILE"

func TestMain(m *testing.M) {
	if path := os.Getenv(runFileVariable); path != "" {
		_, err := Run(context.Background(), path, Options{Output: os.Stdout, Progress: os.Stdout})
		os.Exit(lab.ExitStatus(err))
	}
	status := m.Run()
	if directoryOfCommands != "" {
		os.RemoveAll(directoryOfCommands)
	}
	os.Exit(status)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestListedExperimentsAreWhole(t *testing.T) {
	all, err := List()
	must(t, err)
	if len(all) == 0 {
		t.Fatal("no experiments")
	}
	for _, e := range all {
		if _, err := load(e.Name); err != nil || e.Rows == 0 || len(e.Variants) == 0 || e.Description == "" {
			t.Errorf("%+v, %v", e, err)
		}
	}
	if _, err := load("no-such"); err == nil || !strings.Contains(err.Error(), "loci lab list") {
		t.Errorf("an unknown name: %v", err)
	}
}

func TestVariantsAreTheProduct(t *testing.T) {
	variants, err := readVariants([]byte(smallFile))
	must(t, err)
	var names []string
	for _, v := range variants {
		names = append(names, v.Name)
	}
	if want := []string{"ipv4-one", "ipv4-two", "ipv6-one", "ipv6-two"}; !slices.Equal(names, want) {
		t.Errorf("variants %v, want %v", names, want)
	}
	if got := variants[2].file.Rows[0].Send.Destination; got != netip.MustParseAddr("2001:db8::2") {
		t.Errorf("destination of the IPv6 variant: %v", got)
	}
}

// smallFile is two nodes without a daemon.
const smallFile = `
name: small
description: two nodes
dimensions:
  family:
    ipv4: {a: 192.0.2.1, b: 192.0.2.2, bits: 24, elsewhere: 192.0.2.9}
    ipv6: {a: "2001:db8::1", b: "2001:db8::2", bits: 64, elsewhere: "2001:db8::9"}
  kind:
    one: {}
    two: {}
nodes: [{name: a}, {name: b}]
links:
  - ends:
      - {node: a, interface: eth0, addresses: ["${a}/${bits}"]}
      - {node: b, interface: eth0, addresses: ["${b}/${bits}"]}
    impair: {delay: 1ms, jitter: 500us}
rows:
  - number: 1
    title: a neighbour is reached
    send: {from: a, source: "${a}", destination: "${b}"}
    expect: {seen: [{node: b, interface: eth0, layers: 0}]}
    control:
      change: no node has the destination
      send: {from: a, source: "${a}", destination: "${elsewhere}"}
      expect: {unseen: [{node: b, interface: eth0}]}
`

// TestMistakesAreTold: each mistake in a file is refused before anything is made.
func TestMistakesAreTold(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"unknown key":        {"title:", "titel:", "titel"},
		"no value":           {`source: "${a}"`, `source: "${c}"`, "${c} has no value"},
		"two values":         {"one: {}", "one: {a: 1}", "a has a value in two dimensions"},
		"no options":         {"    one: {}\n    two: {}", "    []", "want options"},
		"unknown node":       {"from: a,", "from: c,", `there is no node "c"`},
		"unknown interface":  {"{node: b, interface: eth0, layers: 0}", "{node: b, interface: eth1}", `has no interface "eth1"`},
		"twice the node":     {"[{name: a}, {name: b}]", "[{name: a}, {name: a}, {name: b}]", `two nodes are called "a"`},
		"nothing expected":   {"{seen: [{node: b, interface: eth0, layers: 0}]}", "{}", "nothing is expected"},
		"receiver":           {"layers: 0}]}", "layers: 0}], received: [c]}", `there is no node "c"`},
		"no control":         {"      change: no node has the destination\n", "", "does not say what it changes"},
		"mixed families":     {`destination: "${b}"`, "destination: 192.0.2.2", "of one family"},
		"too many":           {`destination: "${b}"`, `destination: "${b}", count: 1001`, "count 1001"},
		"drops of no daemon": {"layers: 0}]}", "layers: 0}], dropped: {node: b, reason: x}}", "has no daemon to count drops"},
		"one end":            {"      - {node: b, interface: eth0, addresses: [\"${b}/${bits}\"]}\n", "", "1 ends"},
		"two documents":      {"rows:", "---\nrows:", "more than one document"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(smallFile, c.old, c.new, 1)
			if text == smallFile {
				t.Fatal("the mistake is not in the file")
			}
			if _, err := readVariants([]byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v: want %q", err, c.want)
			}
		})
	}
}

// TestDatagramsAreUnderstood: what build makes, understand reads, through up to two LISP headers of either family.
func TestDatagramsAreUnderstood(t *testing.T) {
	v4 := [2]netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")}
	v6 := [2]netip.Addr{netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")}
	for name, inside := range map[string][]encapsulation{
		"plain":      nil,
		"one layer":  {{Source: v6[0], Destination: v6[1]}},
		"two layers": {{Source: v4[0], Destination: v4[1], InstanceID: 7}, {Source: v6[0], Destination: v6[1]}},
	} {
		for _, inner := range [][2]netip.Addr{v4, v6} {
			s := send{Source: inner[0], Destination: inner[1], Inside: inside}
			packet, err := s.build(mark{5, 6})
			must(t, err)
			etherType := layers.EthernetTypeIPv6
			if packet[0]>>4 == 4 {
				etherType = layers.EthernetTypeIPv4
			}
			buffer := gopacket.NewSerializeBuffer()
			header := &layers.Ethernet{SrcMAC: make([]byte, 6), DstMAC: make([]byte, 6), EthernetType: etherType}
			must(t, gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{}, header, gopacket.Payload(packet)))
			got := understand(buffer.Bytes())
			want := sighting{mark: mark{5, 6}, layers: len(inside), source: inner[0], destination: inner[1], sourcePort: firstPort + 6}
			if len(inside) > 0 {
				want.source, want.destination = inside[0].Source, inside[0].Destination
			}
			if !slices.Equal(got, []sighting{want}) {
				t.Errorf("%s in %v: %+v: want %+v", name, inner, got, want)
			}
		}
	}
}

// TestDatagramsInOnePieceAreUnderstood: a router in user space gives datagrams of one outer flow to the kernel in one
// piece.
func TestDatagramsInOnePieceAreUnderstood(t *testing.T) {
	outer := [2]netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}
	for _, inner := range [][2]netip.Addr{
		{outer[0], netip.MustParseAddr("192.0.2.2")}, {outer[1], netip.MustParseAddr("2001:db8::2")},
	} {
		var payload []byte
		for number := range uint64(3) {
			s := send{Source: inner[0], Destination: inner[1]}
			packet, err := s.build(mark{5, number})
			must(t, err)
			payload = append(append(payload, make([]byte, lispOctets)...), packet...)
		}
		packet, err := udpIn(outer[0], outer[0], controlPort, 40000, payload)
		must(t, err)
		var numbers []uint64
		for _, s := range understand(append(append(make([]byte, 12), 0x08, 0x00), packet...)) {
			numbers = append(numbers, s.mark.number)
			if s.layers != 1 || s.source != outer[0] || s.sourcePort != controlPort {
				t.Errorf("%+v", s)
			}
		}
		if !slices.Equal(numbers, []uint64{0, 1, 2}) {
			t.Errorf("%v: datagrams %v, want 0 to 2", inner, numbers)
		}
	}
}

// FuzzUnderstand: no frame that a capture hands over ends the run.
func FuzzUnderstand(f *testing.F) {
	s := send{Source: netip.MustParseAddr("192.0.2.1"), Destination: netip.MustParseAddr("192.0.2.2"),
		Inside: []encapsulation{{Source: netip.MustParseAddr("2001:db8::1"), Destination: netip.MustParseAddr("2001:db8::2")}}}
	packet, err := s.build(mark{1, 2})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(append(make([]byte, 12), 0x86, 0xdd), packet...))
	f.Fuzz(func(_ *testing.T, frame []byte) { understand(frame) })
}

// runFile runs the text of a file, and tells what the run left.
func runFile(t *testing.T, text string, options Options) (Report, string, error) {
	t.Helper()
	testnet.RequireRoot(t)
	path := filepath.Join(t.TempDir(), "experiment.yaml")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	var output, progress bytes.Buffer
	options.Output, options.Progress = &output, &progress
	options.JSON = true
	report, err := Run(context.Background(), path, options)
	var printed Report
	must(t, json.Unmarshal(output.Bytes(), &printed))
	if printed.Passed != report.Passed || len(printed.Rows) != len(report.Rows) {
		t.Errorf("printed %+v, returned %+v", printed, report)
	}
	leavesNothing(t, os.Getpid())
	return report, progress.String(), err
}

// networkOf lists what is there of the experiments of a process.
func networkOf(pid int) (found []string) {
	for _, pattern := range []string{"/run/netns/", Runs.Parent + "/"} {
		matches, _ := filepath.Glob(fmt.Sprintf("%s%s-%d-*", pattern, Runs.Prefix, pid))
		found = append(found, matches...)
	}
	return found
}

func leavesNothing(t *testing.T, pid int) {
	t.Helper()
	if left := networkOf(pid); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// TestTerminalGoesAway: neither a reader that closes the pipe nor a terminal that hangs up leaves a network.
func TestTerminalGoesAway(t *testing.T) {
	testnet.RequireRoot(t)
	// Where the tests run under nohup, the run would inherit that the signal is ignored. One that is caught is
	// not inherited.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	path := filepath.Join(t.TempDir(), "experiment.yaml")
	must(t, os.WriteFile(path, []byte(smallFile), 0o600))
	start := func(out *os.File) *exec.Cmd {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env, cmd.Stdout = append(os.Environ(), runFileVariable+"="+path), out
		must(t, cmd.Start())
		return cmd
	}

	reader, writer, err := os.Pipe()
	must(t, err)
	must(t, reader.Close())
	unread := start(writer)
	must(t, writer.Close())
	if err := unread.Wait(); err != nil {
		t.Errorf("without a reader: %v", err)
	}
	leavesNothing(t, unread.Process.Pid)

	hungUp := start(nil)
	for deadline := time.Now().Add(time.Minute); len(networkOf(hungUp.Process.Pid)) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the run makes no network")
		}
	}
	must(t, hungUp.Process.Signal(syscall.SIGHUP))
	var exit *exec.ExitError
	if err := hungUp.Wait(); !errors.As(err, &exit) || exit.ExitCode() != lab.ExitInterrupted {
		t.Errorf("after a hangup: %v, want exit status %d", err, lab.ExitInterrupted)
	}
	leavesNothing(t, hungUp.Process.Pid)
}

// TestEmulatedLinksAreNotKept: the mistake is told before anything is made, also to who has no rights.
func TestEmulatedLinksAreNotKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "experiment.yaml")
	must(t, os.WriteFile(path, []byte(smallFile), 0o600))
	report, err := Run(context.Background(), path, Options{Keep: true, Output: io.Discard, Progress: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "--keep: variant ipv6-two has emulated links") || report.Name != "" {
		t.Errorf("%+v, %v", report, err)
	}
}

// TestMissedFramesFailTheRow: nothing can be said of a place whose capture missed frames.
func TestMissedFramesFailTheRow(t *testing.T) {
	at := place{"b", "eth0"}
	w := &watch{seen: map[place]map[passing][]sighting{at: {}}, missed: map[place]uint64{}}
	unseen := expect{Unseen: []point{{Node: at.node, Interface: at.link}}}
	if v := unseen.judge(w, 3, 0); !v.Passed {
		t.Errorf("nothing was missed: %+v", v)
	}
	w.missed[at] = 7
	if v := unseen.judge(w, 3, 0); v.Passed || len(v.Wrong) != 1 || !strings.Contains(v.Wrong[0], "eth0 of b missed 7 frames") {
		t.Errorf("%+v", v)
	}
}

// TestEmulatedLinksAndVerdicts: rows pass and fail as they must, and a failed row is an error.
func TestEmulatedLinksAndVerdicts(t *testing.T) {
	report, progress, err := runFile(t, smallFile, Options{Variants: []string{"ipv4-one", "ipv6-two"}})
	if err != nil || !report.Passed || len(report.Rows) != 2 {
		t.Errorf("%v, %+v\n%s", err, report, progress)
	}
	received := strings.Replace(smallFile, "{seen: [{node: b, interface: eth0, layers: 0}]}", "{received: [b], unreceived: [a]}", 1)
	received = strings.Replace(received, "{unseen: [{node: b, interface: eth0}]}", "{received: [b]}", 1)
	report, progress, err = runFile(t, received, Options{Variants: []string{"ipv4-two"}})
	if !errors.Is(err, ErrFailed) || !report.Rows[0].Claim.Passed || report.Rows[0].Control.Passed ||
		!strings.Contains(progress, "b received 0 of 3 datagrams, want all") {
		t.Errorf("what sockets receive: %v, %+v\n%s", err, report, progress)
	}
	wrong := strings.Replace(smallFile, "layers: 0}", "layers: 1}", 1)
	report, progress, err = runFile(t, wrong, Options{Variants: []string{"ipv4-one"}})
	if !errors.Is(err, ErrFailed) || report.Passed || report.Rows[0].Claim.Passed || !report.Rows[0].Control.Passed {
		t.Errorf("a row whose claim is wrong: %v, %+v", err, report)
	}
	if !strings.Contains(progress, "FAILED") || !strings.Contains(progress, "0 of 3 datagrams (3 in any form), want all") {
		t.Errorf("the progress does not tell what was wrong:\n%s", progress)
	}
	blind := strings.Replace(smallFile, `destination: "${elsewhere}"`, `destination: "${b}"`, 1)
	report, _, err = runFile(t, blind, Options{Variants: []string{"ipv6-one"}})
	if !errors.Is(err, ErrFailed) || !report.Rows[0].Claim.Passed || report.Rows[0].Control.Passed {
		t.Errorf("a control that does not flip: %v, %+v", err, report)
	}
}

// variantsInTests are the named ones, or all where tests may take long.
func variantsInTests(names ...string) []string {
	if os.Getenv("LOCI_LONG_TESTS") != "" {
		return nil
	}
	return names
}

// natFile is two nodes and a NAT box between them.
const natFile = `
name: nat
description: a NAT box
nodes:
  - {name: a, routes: [{to: 0.0.0.0/0, via: 192.0.2.9}]}
  - {name: box, forwards: true, nat: {outside: out, udp-timeout: 5s}}
  - {name: b, answers: true}
links:
  - ends:
      - {node: a, interface: eth0, addresses: [192.0.2.1/24]}
      - {node: box, interface: in, addresses: [192.0.2.9/24]}
  - ends:
      - {node: b, interface: eth0, addresses: [198.51.100.2/24]}
      - {node: box, interface: out, addresses: [198.51.100.9/24]}
rows:
  - number: 1
    title: source and port are translated, and the answer comes back
    send: &out {from: a, source: 192.0.2.1, destination: 198.51.100.2, count: 1}
    expect:
      seen:
        - {node: a, interface: eth0, source: 192.0.2.1, source-port: 20000}
        - {node: b, interface: eth0, source: 198.51.100.9}
        - {node: a, interface: eth0, answer: true, source: 198.51.100.2, destination: 192.0.2.1}
      unseen: [{node: b, interface: eth0, source: 192.0.2.1}, {node: b, interface: eth0, source-port: 20000}]
      received: [b]
    control:
      change: nothing has left the box for the destination
      send: {from: b, source: 198.51.100.2, destination: 198.51.100.9}
      expect: {unseen: [{node: a, interface: eth0}]}
`

// TestNATBoxAndAnswers: a NAT box translates, and a node that answers is heard through it.
func TestNATBoxAndAnswers(t *testing.T) {
	report, progress, err := runFile(t, natFile, Options{})
	if err != nil || !report.Passed {
		t.Errorf("%v, %+v\n%s", err, report, progress)
	}
	without := strings.Replace(natFile, "{name: b, answers: true}", "{name: b, routes: [{to: 192.0.2.0/24, via: 198.51.100.9}]}", 1)
	without = strings.Replace(without, "nat: {outside: out, udp-timeout: 5s}", "", 1)
	report, progress, err = runFile(t, without, Options{})
	if !errors.Is(err, ErrFailed) || report.Rows[0].Claim.Passed || !strings.Contains(progress, "eth0 of a: 0 of 1 datagrams (0 in any form), want all") {
		t.Errorf("without NAT and answers: %v, %+v\n%s", err, report, progress)
	}
	for old, want := range map[string]string{
		"outside: out": "a NAT box forwards", "udp-timeout: 5s": "want whole seconds", "forwards: true, nat": "a NAT box forwards",
	} {
		mistake := map[string]string{"outside: out": "outside: eth7", "udp-timeout: 5s": "udp-timeout: 5ms", "forwards: true, nat": "nat"}[old]
		if _, err := readVariants([]byte(strings.Replace(natFile, old, mistake, 1))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", mistake, err, want)
		}
	}
}

// TestTable1: the experiment with daemons, in one variant of each family and hook; its files are where they were
// asked for.
func TestTable1(t *testing.T) {
	testnet.RequireRoot(t)
	must(t, buildCommands())
	text, err := load("p4-table1")
	must(t, err)
	out := t.TempDir()
	report, progress, err := runFile(t, string(text), Options{
		Variants: variantsInTests("ipv4-xdp", "ipv6-tc"), Out: out, Executable: filepath.Join(directoryOfCommands, "loci"),
	})
	if err != nil || !report.Passed {
		t.Fatalf("%v\n%s", err, progress)
	}
	for _, name := range []string{"report.json", "ipv4-xdp/xtr-a.log", "ipv6-tc/ms.yaml", "ipv6-tc/row-1-claim/core-to-a.pcap"} {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTable1InUserSpace: the same experiment with the data plane in user space, in one variant of each family.
func TestTable1InUserSpace(t *testing.T) {
	testnet.RequireRoot(t)
	must(t, buildCommands())
	text, err := load("p4-table1")
	must(t, err)
	out := t.TempDir()
	report, progress, err := runFile(t, string(text), Options{
		Variants: variantsInTests("ipv4-tc", "ipv6-tc"), Engine: "user", Out: out, Executable: filepath.Join(directoryOfCommands, "loci"),
	})
	if err != nil || !report.Passed || report.Engine != "user" {
		t.Fatalf("engine %q: %v\n%s", report.Engine, err, progress)
	}
	configuration, err := os.ReadFile(filepath.Join(out, "ipv4-tc/xtr-a.yaml"))
	if err != nil || !strings.Contains(string(configuration), "engine: user") {
		t.Errorf("%v, configuration of a router:\n%s", err, configuration)
	}
}

// TestADaemonThatFailsIsTold: the log's end stands in the error, and nothing is left.
func TestADaemonThatFailsIsTold(t *testing.T) {
	testnet.RequireRoot(t)
	must(t, buildCommands())
	text := strings.Replace(smallFile, "rows:", "daemons: [{node: a, config: \"no-such-key: 1\\n\"}]\nrows:", 1)
	_, _, err := runFile(t, text, Options{Variants: []string{"ipv4-one"}, Executable: filepath.Join(directoryOfCommands, "loci")})
	if err == nil || !strings.Contains(err.Error(), "log of a:") || !strings.Contains(err.Error(), "no-such-key") {
		t.Errorf("%v", err)
	}
}

func TestNearMissOfAnExperimentIsNamed(t *testing.T) {
	if _, err := load("p4-tabel1"); err == nil || !strings.Contains(err.Error(), `no experiment "p4-tabel1" (did you mean p4-table1?)`) {
		t.Error(err)
	}
	if _, err := load("xyzzy"); err == nil || strings.Contains(err.Error(), "mean") {
		t.Error(err)
	}
}
