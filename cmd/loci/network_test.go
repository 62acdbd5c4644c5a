// SPDX-License-Identifier: Apache-2.0

package main_test

// The network of the system tests: two sites with a host each, a core that knows
// no EID, a mapping system, and `loci run` as a process for each router. Real
// namespaces, real packets, the real command.

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"loci/daemon/api"
	"loci/internal/commandtest"
	"loci/internal/testnet"
)

// binary is the command under test, built once, with loci-lab beside it.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "loci-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binary = filepath.Join(dir, "loci")
	if err := commandtest.Build(dir, "loci", "loci-lab"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	os.RemoveAll(dir)
	os.Exit(status)
}

// readyFor bounds what a test waits for.
const readyFor = time.Minute

// siteKey is the key that a site shares with the Map-Server.
func siteKey(number int) string { return fmt.Sprintf("key-of-test-site-%d", number) }

// testSite is one of the two sites, number 1 or 2.
type testSite struct{ number int }

func (s testSite) name() string      { return fmt.Sprintf("xtr%d", s.number) }
func (s testSite) rloc4() string     { return fmt.Sprintf("172.16.%d.2", s.number) }
func (s testSite) eid4() string      { return fmt.Sprintf("10.%d.0.0/24", s.number) }
func (s testSite) eid6() string      { return fmt.Sprintf("fd00:%d::/64", s.number) }
func (s testSite) host4() netip.Addr { return netip.MustParseAddr(fmt.Sprintf("10.%d.0.10", s.number)) }
func (s testSite) host6() netip.Addr {
	return netip.MustParseAddr(fmt.Sprintf("fd00:%d::10", s.number))
}
func (s testSite) router4() netip.Addr {
	return netip.MustParseAddr(fmt.Sprintf("10.%d.0.1", s.number))
}
func (s testSite) router6() netip.Addr {
	return netip.MustParseAddr(fmt.Sprintf("fd00:%d::1", s.number))
}

// lispNetwork is everything.
type lispNetwork struct {
	t       *testing.T
	dir     string
	engine  string   // datapath.engine of the routers
	confine []string // what daemons are run by, with their command as its last arguments; LOCI_TEST_CONFINE
	net     *testnet.Network
	at      map[string]*testnet.Namespace // host1 host2 xtr1 xtr2 ms core
	daemons map[string]*exec.Cmd
	logs    map[string]*logBuffer
}

// logBuffer is a log that may be read while a process writes it.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// testEngine is the variable of the environment that chooses datapath.engine of all routers: `LOCI_TEST_ENGINE=user go test ./cmd/loci`.
const testEngine = "LOCI_TEST_ENGINE"

// newEmptyNetwork has namespaces and no links.
func newEmptyNetwork(t *testing.T, roles ...string) *lispNetwork {
	t.Helper()
	n := &lispNetwork{
		t: t, dir: t.TempDir(), engine: cmp.Or(os.Getenv(testEngine), "kernel"), net: testnet.ForTest(t), at: map[string]*testnet.Namespace{},
		daemons: map[string]*exec.Cmd{}, logs: map[string]*logBuffer{}, confine: strings.Fields(os.Getenv("LOCI_TEST_CONFINE")),
	}
	for _, role := range roles {
		ns, err := n.net.Namespace(role)
		n.must(err)
		n.at[role] = ns
	}
	t.Cleanup(n.tellLogs)
	t.Cleanup(func() { os.RemoveAll(n.pins()) }) // after the daemons have ended
	return n
}

// newLISPNetwork builds the network; no daemon runs yet.
func newLISPNetwork(t *testing.T) *lispNetwork {
	t.Helper()
	n := newEmptyNetwork(t, "core", "ms", "xtr1", "xtr2", "host1", "host2")
	n.must(n.at["core"].Forward())
	n.link("core", "to-ms", "ms", "core0", "172.16.9.1/30", "172.16.9.2/30", "2001:db8:9::1/64", "2001:db8:9::2/64")
	n.defaults("ms", "172.16.9.1", "2001:db8:9::1")
	for number := 1; number <= 2; number++ {
		n.buildSite(number)
	}
	return n
}

func (n *lispNetwork) buildSite(i int) {
	xtr := fmt.Sprintf("xtr%d", i)
	n.link("core", "to-"+xtr, xtr, "core0",
		fmt.Sprintf("172.16.%d.1/30", i), fmt.Sprintf("172.16.%d.2/30", i), fmt.Sprintf("2001:db8:%d::1/64", i), fmt.Sprintf("2001:db8:%d::2/64", i))
	n.must(n.at[xtr].Forward())
	n.defaults(xtr, fmt.Sprintf("172.16.%d.1", i), fmt.Sprintf("2001:db8:%d::1", i))
	n.plugHost(i)
}

// plugHost joins a site's host to its router.
func (n *lispNetwork) plugHost(i int) {
	xtr, host := fmt.Sprintf("xtr%d", i), fmt.Sprintf("host%d", i)
	n.link(xtr, "site0", host, "eth0",
		fmt.Sprintf("10.%d.0.1/24", i), fmt.Sprintf("10.%d.0.10/24", i), fmt.Sprintf("fd00:%d::1/64", i), fmt.Sprintf("fd00:%d::10/64", i))
	n.defaults(host, fmt.Sprintf("10.%d.0.1", i), fmt.Sprintf("fd00:%d::1", i))
}

// link joins two namespaces with an address of each family at each end.
func (n *lispNetwork) link(a, linkA, b, linkB string, addresses ...string) {
	n.t.Helper()
	parsed := make([]netip.Prefix, len(addresses))
	for i, text := range addresses {
		parsed[i] = netip.MustParsePrefix(text)
	}
	n.must(testnet.Connect(
		testnet.End{Namespace: n.at[a], Name: linkA, Addresses: []netip.Prefix{parsed[0], parsed[2]}},
		testnet.End{Namespace: n.at[b], Name: linkB, Addresses: []netip.Prefix{parsed[1], parsed[3]}}))
}

func (n *lispNetwork) defaults(role, via4, via6 string) {
	n.t.Helper()
	n.must(n.at[role].AddRoute(testnet.Route{Destination: netip.MustParsePrefix("0.0.0.0/0"), Via: netip.MustParseAddr(via4)}))
	n.must(n.at[role].AddRoute(testnet.Route{Destination: netip.MustParsePrefix("::/0"), Via: netip.MustParseAddr(via6)}))
}

func (n *lispNetwork) must(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

// common is what keeps the daemons of one machine apart.
func (n *lispNetwork) common(name string) string {
	return fmt.Sprintf("control:\n  socket: %s\ndatapath:\n  pin-directory: %s\n  engine: %s\nlogging:\n  level: debug\n",
		n.socket(name), filepath.Join(n.pins(), name), n.engine)
}

// pins is where the kernel keeps the tables of this network's routers.
func (n *lispNetwork) pins() string { return filepath.Join("/sys/fs/bpf", n.net.Name()) }

func (n *lispNetwork) socket(name string) string { return filepath.Join(n.dir, name+".sock") }
func (n *lispNetwork) file(name string) string   { return filepath.Join(n.dir, name+".yaml") }

// mappingSystem is the Map-Server's and Map-Resolver's configuration.
func (n *lispNetwork) mappingSystem() string {
	text := "map-resolver: {}\nmap-server:\n  sites:\n"
	for number := 1; number <= 2; number++ {
		s := testSite{number}
		text += fmt.Sprintf("    - name: site%d\n      authentication-keys: [{auth-key-value: %s}]\n      eid-prefixes: [{eid: %s}, {eid: '%s'}]\n",
			number, siteKey(number), s.eid4(), s.eid6())
	}
	return text + n.common("ms")
}

// xtr is a site's configuration: both families of EIDs over both of RLOCs.
func (n *lispNetwork) xtr(number int) string {
	s := testSite{number}
	return fmt.Sprintf("interfaces: {site: [{interface: site0}], core: [core0]}\nitr: {map-resolvers: [172.16.9.2]}\n"+
		"etr:\n  map-servers:\n    - ms-address: 172.16.9.2\n      authentication-keys: [{auth-key-value: %s}]\n  local-eids: [{eid: %s}, {eid: '%s'}]\n",
		siteKey(number), s.eid4(), s.eid6()) + n.common(s.name())
}

// run starts a daemon with a configuration and waits until it is ready.
func (n *lispNetwork) run(name, configuration string) {
	n.t.Helper()
	n.must(os.WriteFile(n.file(name), []byte(configuration), 0o600))
	n.start(name)
}

func (n *lispNetwork) start(name string) {
	n.t.Helper()
	n.launch(name, name, "--detach")
	n.awaitReady(name)
}

// launch starts a process of a router; key names it among the daemons.
func (n *lispNetwork) launch(key, name string, arguments ...string) {
	n.t.Helper()
	if n.logs[key] == nil {
		n.logs[key] = &logBuffer{}
	}
	command := slices.Concat(n.confine, []string{binary, "run", "--config", n.file(name)}, arguments)
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = n.logs[key], n.logs[key]
	n.must(n.at[name].Start(cmd))
	n.daemons[key] = cmd
	n.t.Cleanup(func() { n.stop(key, cmd) })
}

func (n *lispNetwork) awaitReady(name string) {
	n.t.Helper()
	n.await(name+" is ready", func(ctx context.Context) bool {
		s, err := n.client(name).Status(ctx)
		return err == nil && s.Ready
	})
}

// runAll starts the mapping system and both sites and waits for the registrations.
func (n *lispNetwork) runAll() {
	n.t.Helper()
	n.run("ms", n.mappingSystem())
	n.run("xtr1", n.xtr(1))
	n.run("xtr2", n.xtr(2))
	n.awaitRegistrations(4)
}

func (n *lispNetwork) awaitRegistrations(count int) {
	n.t.Helper()
	var list []api.Registration
	var err error
	n.t.Cleanup(func() {
		if n.t.Failed() {
			n.t.Logf("registrations at last: %+v, %v", list, err)
		}
	})
	n.await(fmt.Sprintf("%d registrations", count), func(ctx context.Context) bool {
		list, err = n.client("ms").Registrations(ctx)
		return err == nil && len(list) == count
	})
}

func (n *lispNetwork) client(name string) *api.Client { return api.NewClient(n.socket(name)) }

func (n *lispNetwork) await(what string, reached func(context.Context) bool) {
	n.t.Helper()
	n.awaitWithin(readyFor, what, reached)
}

func (n *lispNetwork) awaitWithin(limit time.Duration, what string, reached func(context.Context) bool) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), limit)
	defer cancel()
	for !reached(ctx) {
		select {
		case <-ctx.Done():
			n.t.Fatalf("%s: not within %s", what, limit)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// kill ends a daemon as a crash does.
func (n *lispNetwork) kill(name string) {
	n.t.Helper()
	n.must(n.daemons[name].Process.Kill())
	_ = n.daemons[name].Wait()
	delete(n.daemons, name)
}

// stop ends a daemon cleanly, data plane included, if it still runs.
func (n *lispNetwork) stop(name string, cmd *exec.Cmd) {
	if n.daemons[name] != cmd {
		return
	}
	delete(n.daemons, name)
	_ = cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); err != nil {
		n.t.Errorf("%s stopped with %v", name, err)
	}
}

// tellDrops logs what the data planes did with packets, and why not with others.
func (n *lispNetwork) tellDrops() {
	for name := range n.daemons {
		c, err := n.client(name).Counters(n.t.Context())
		for _, counts := range []map[string]uint64{c.DataPlane, c.Drops} {
			maps.DeleteFunc(counts, func(_ string, count uint64) bool { return count == 0 })
		}
		n.t.Logf("--- %s: data plane %v, drops %v, %v", name, c.DataPlane, c.Drops, err)
	}
}

func (n *lispNetwork) tellLogs() {
	if !n.t.Failed() {
		return
	}
	for name, log := range n.logs {
		lines := strings.Split(log.String(), "\n")
		n.t.Logf("--- %s\n%s", name, strings.Join(lines[max(0, len(lines)-40):], "\n"))
	}
}

// loci runs the command in a namespace and returns what it printed.
func (n *lispNetwork) loci(at string, arguments ...string) (output string, status int) {
	n.t.Helper()
	cmd := exec.Command(binary, arguments...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	n.must(n.at[at].Start(cmd))
	_ = cmd.Wait()
	return out.String(), cmd.ProcessState.ExitCode()
}

// show runs `loci show WHAT --json` and decodes its answer.
func (n *lispNetwork) show(name string, v any, what ...string) {
	n.t.Helper()
	arguments := append([]string{"show"}, what...)
	out, status := n.loci(name, append(arguments, "--json", "--socket", n.socket(name))...)
	if status != 0 {
		n.t.Fatalf("loci show %v: %s", what, out)
	}
	n.must(json.Unmarshal([]byte(out), v))
}

// pings is a ping that goes on until it is told to stop.
type pings struct {
	n    *lispNetwork
	stop chan struct{}
	sums chan [2]int // sent, received
}

// startPinging sends a hundred echo requests a second from host1 to host2.
func (n *lispNetwork) startPinging() *pings {
	return n.startPingingBetween(testSite{1}.host4(), testSite{2}.host4())
}

// startPingingBetween does so between other addresses of theirs.
func (n *lispNetwork) startPingingBetween(source, destination netip.Addr) *pings {
	p := &pings{n: n, stop: make(chan struct{}), sums: make(chan [2]int, 1)}
	go func() {
		var sum [2]int
		for {
			// Lost ones are waited for at the end of each ten: none overtakes the judgement.
			result, err := testnet.Ping{
				Namespace: n.at["host1"], Source: source, Destination: destination, Count: 10, Interval: 10 * time.Millisecond,
			}.Run(context.Background())
			if err != nil {
				n.t.Error(err)
			}
			sum[0], sum[1] = sum[0]+result.Sent+result.Refused, sum[1]+result.Received
			select {
			case <-p.stop:
				p.sums <- sum
				return
			default:
			}
		}
	}()
	return p
}

// end stops the ping, after at least ten more requests, and fails the test when an
// answer was missing.
func (p *pings) end(during string) (sent int) {
	p.n.t.Helper()
	close(p.stop)
	sum := <-p.sums
	if sum[0] != sum[1] {
		p.n.t.Errorf("%d of %d pings answered during %s", sum[1], sum[0], during)
	}
	return sum[0]
}

// ping sends echo requests and fails the test when an answer is missing.
func (n *lispNetwork) ping(from string, source, destination netip.Addr, count int) testnet.PingResult {
	n.t.Helper()
	return n.pingEvery(0, from, source, destination, count)
}

func (n *lispNetwork) pingEvery(interval time.Duration, from string, source, destination netip.Addr, count int) testnet.PingResult {
	n.t.Helper()
	result, err := testnet.Ping{
		Namespace: n.at[from], Source: source, Destination: destination, Count: count, Interval: interval, Timeout: 3 * time.Second,
	}.Run(n.t.Context())
	n.must(err)
	if result.Received != count {
		n.t.Errorf("%s -> %s: %d of %d answered", source, destination, result.Received, count)
		n.tellDrops()
	}
	return result
}
