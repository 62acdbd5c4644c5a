// SPDX-License-Identifier: Apache-2.0

//go:build !nometrics

package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"loci/config"
	"loci/control"
	"loci/daemon/api"
	"loci/internal/jsondoc"
	"loci/lisp"
)

// counted is a source of one of each counter that docs/counters.md has.
type counted struct {
	all      api.Counters
	mappings []string
}

func (c counted) Status(context.Context) (api.Status, error) {
	return api.Status{
		Version: "1", Engine: "kernel", Ready: true, MapCacheSize: max(7, len(c.mappings)),
		MapServers:        []api.MapServer{{Address: "192.0.2.1", State: string(control.MapServerRegistered), EIDPrefixes: 2}, {Address: "2001:db8::1", Site: "a", State: string(control.MapServerWaiting)}, {Address: "192.0.2.3", State: "sent", EIDPrefixes: 1}, {Address: "192.0.2.4", State: "idle"}},
		MapResolverStates: []api.MapResolver{{Address: "192.0.2.1", State: string(control.MapResolverSilent)}},
	}, nil
}

func (c counted) Counters(context.Context) (api.Counters, error) { return c.all, nil }

func (counted) NATSummary(context.Context) (api.NAT, error) {
	now := time.Now()
	rtr := netip.MustParseAddr("192.0.2.9")
	return api.NAT{
		BindingCount: 3, RTRs: []api.NATRTR{{Address: rtr, RLOC: netip.MustParseAddr("10.0.0.2"), Silent: true, ConfirmedAt: &now}},
		Views: []api.NATView{
			{MapServer: "192.0.2.1:4342", RLOC: lisp.RLOCFromAddr(netip.MustParseAddr("192.168.1.2")), AnsweredAt: &now, BehindNAT: true},
			{MapServer: "192.0.2.2:4342"},
		},
	}, nil
}

func (counted) Times(context.Context) (t Times, err error) {
	t.Resolutions.Add(3 * time.Millisecond)
	t.Resolutions.Add(time.Minute)
	return t, nil
}

func (c counted) MapCache(context.Context, api.ListQuery) iter.Seq2[api.MapCacheEntry, error] {
	return func(yield func(api.MapCacheEntry, error) bool) {
		for _, p := range c.mappings {
			if !yield(api.MapCacheEntry{EIDPrefix: lisp.MustParsePrefix(p), Packets: 5, Octets: 500}, nil) {
				return
			}
		}
	}
}

// countersOf reads the names of docs/counters.md.
func countersOf(t *testing.T) (c api.Counters) {
	t.Helper()
	text, err := os.ReadFile("../../docs/counters.md")
	if err != nil {
		t.Fatal(err)
	}
	c = api.Counters{Control: map[string]uint64{}, DataPlane: map[string]uint64{}, Drops: map[string]uint64{}}
	c.Times = map[string]jsondoc.Seconds{}
	for section := range strings.SplitSeq(string(text), "\n## ") {
		into := c.Control
		switch {
		case strings.HasPrefix(section, "Dropped packets"):
			into = c.Drops
		case strings.HasPrefix(section, "Packets"):
			into = c.DataPlane
		}
		for _, m := range regexp.MustCompile("(?m)^- `([a-z0-9_-]+)`").FindAllStringSubmatch(section, -1) {
			if strings.HasSuffix(m[1], "_seconds") {
				c.Times[m[1]] = 0.5
				continue
			}
			into[m[1]] = 1
		}
	}
	if len(c.Times) < 2 || len(c.Control) < 100 || len(c.DataPlane) < 20 || len(c.Drops) < 30 {
		t.Fatalf("docs/counters.md has %d, %d and %d counters", len(c.Control), len(c.DataPlane), len(c.Drops))
	}
	return c
}

// serve serves a source at a free port of an address.
func serve(t *testing.T, from Source, c config.Metrics) (*Server, string) {
	t.Helper()
	s := New(slog.New(slog.DiscardHandler))
	s.Start(from)
	change, err := s.Prepare(c)
	if err != nil {
		t.Fatal(err)
	}
	change.Make()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	for _, l := range change.opened {
		return s, l.Addr().String()
	}
	return s, ""
}

func listenAt(addresses ...string) (list []config.ListenAddress) {
	for _, a := range addresses {
		list = append(list, config.ListenAddress{AddrPort: netip.MustParseAddrPort(a)})
	}
	return list
}

func get(t *testing.T, address string) (string, error) {
	t.Helper()
	answer, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusOK {
		err = errors.Join(err, fmt.Errorf("%s: %s", answer.Status, body))
	}
	return string(body), err
}

// helpPage is a page that a help text sends the reader to, "See COUNTER in docs/PAGE.", wherever an installation has
// docs.
var helpPage = regexp.MustCompile(`(?m)^# HELP \S+ See (\w+) in (.*)\.$`)

// TestHelpNamesPages: each page that a help text names is there, and has the counter.
func TestHelpNamesPages(t *testing.T) {
	_, address := serve(t, counted{all: countersOf(t)}, config.Metrics{Listen: listenAt("127.0.0.1:0")})
	text, err := get(t, address)
	if err != nil {
		t.Fatal(err)
	}
	pages := helpPage.FindAllStringSubmatch(text, -1)
	if names := strings.Count(text, ".md"); names == 0 || names != len(pages) {
		t.Errorf("%d of %d names of pages are in a form that holds in every installation", len(pages), names)
	}
	for _, m := range pages {
		name, isRelative := strings.CutPrefix(m[2], "docs/")
		page, err := os.ReadFile("../../docs/" + name)
		if !isRelative || err != nil || !strings.Contains(string(page), "`"+m[1]+"`") {
			t.Errorf("%s: %v, or the page lacks the counter", m[0], err)
		}
	}
}

func TestEveryCounterIsAMetric(t *testing.T) {
	all := countersOf(t)
	for _, at := range []string{"127.0.0.1:0", "[::1]:0"} {
		_, address := serve(t, counted{all: all}, config.Metrics{Listen: listenAt(at)})
		text, err := get(t, address)
		if err != nil {
			t.Fatal(err)
		}
		for _, names := range []map[string]uint64{all.Control, all.DataPlane} {
			for name := range names {
				n := nameOf(name)
				want := "\n" + n.metric + " "
				if n.reason != "" {
					want = fmt.Sprintf("\n%s{reason=%q} 1\n", n.metric, n.reason)
				}
				if !strings.Contains(text, want) {
					t.Errorf("%s: no %q", name, want)
				}
			}
		}
		for name := range all.Times {
			if want := "\nloci_" + name + " 0.5\n"; !strings.Contains(text, want) {
				t.Errorf("no %q", want)
			}
		}
		for reason := range all.Drops {
			if want := fmt.Sprintf("\nloci_dropped_packets_total{reason=%q} 1\n", reason); !strings.Contains(text, want) {
				t.Errorf("no %q", want)
			}
		}
		for _, want := range []string{
			`loci_map_server_registered{map_server="192.0.2.1",site=""} 1`, `loci_map_server_registered{map_server="2001:db8::1",site="a"} 0`,
			"loci_nat_bindings 3", `loci_behind_nat{map_server="192.0.2.1:4342",rloc="192.168.1.2"} 1`,
			`loci_rtr_answers{rloc="10.0.0.2",rtr="192.0.2.9"} 0`, `loci_rtr_confirmed{rloc="10.0.0.2",rtr="192.0.2.9"} 1`,
			`loci_map_resolver_answers{map_resolver="192.0.2.1"} 0`, "loci_ready 1", "loci_map_cache_entries 7",
			`loci_resolution_duration_seconds_bucket{le="0.0025"} 0`, `loci_resolution_duration_seconds_bucket{le="0.005"} 1`,
			`loci_resolution_duration_seconds_bucket{le="30"} 1`, `loci_resolution_duration_seconds_bucket{le="+Inf"} 2`, "go_goroutines ", "process_resident_memory_bytes ",
		} {
			if !strings.Contains(text, "\n"+want) {
				t.Errorf("no %q", want)
			}
		}
		// No Map-Notify is wanted of the one, nothing is to be registered at the other.
		for _, never := range []string{`loci_map_server_registered{map_server="192.0.2.3"`, `loci_map_server_registered{map_server="192.0.2.4"`} {
			if strings.Contains(text, never) {
				t.Errorf("there is %q", never)
			}
		}
		problems, err := promlint.New(strings.NewReader(text)).Lint()
		if err != nil || len(problems) > 0 {
			t.Errorf("promtool check metrics: %v %v", problems, err)
		}
	}
}

func TestMappingsAreAskedFor(t *testing.T) {
	from := counted{mappings: []string{"10.1.0.0/16", "[70000]10.1.0.0/16", "2001:db8::/32"}}
	for _, wanted := range []bool{false, true} {
		_, address := serve(t, from, config.Metrics{Listen: listenAt("127.0.0.1:0"), PerMapping: wanted})
		text, err := get(t, address)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(text, "\nloci_mapping_packets_total{") == 3; got != wanted {
			t.Errorf("per-mapping %v: %s", wanted, text)
		}
		if got := strings.Contains(text, `loci_mapping_octets_total{eid_prefix="10.1.0.0/16",instance_id="70000"} 500`); got != wanted {
			t.Errorf("per-mapping %v: %s", wanted, text)
		}
	}
}

// TestMappingsHaveALimit: a map-cache of any size leaves a scrape its time.
func TestMappingsHaveALimit(t *testing.T) {
	var from counted
	for i := range mostMappings + 3 {
		from.mappings = append(from.mappings, fmt.Sprintf("10.%d.%d.0/24", i>>8, i&0xff))
	}
	_, address := serve(t, from, config.Metrics{Listen: listenAt("127.0.0.1:0"), PerMapping: true})
	text, err := get(t, address)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(text, "\nloci_mapping_packets_total{"); got != mostMappings {
		t.Errorf("%d mappings have metrics, want %d", got, mostMappings)
	}
	if !strings.Contains(text, "\nloci_mappings_left_out 3\n") {
		t.Error("nothing says that three are left out")
	}
}

func TestAddressesFollowTheConfiguration(t *testing.T) {
	s, first := serve(t, counted{}, config.Metrics{Listen: listenAt("127.0.0.1:0")})
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	busy := taken.Addr().String()
	if _, err := s.Prepare(config.Metrics{Listen: listenAt("127.0.0.1:0", busy)}); err == nil || !strings.Contains(err.Error(), "metrics.listen: "+busy) {
		t.Errorf("an address in use: %v", err)
	}
	if _, err := get(t, first); err != nil {
		t.Errorf("after a refused change: %v", err)
	}
	// An address of another host, which this one may get: RFC 5737.
	change, err := s.Prepare(config.Metrics{Listen: listenAt("192.0.2.1:9343", "[2001:db8::1]:9343")})
	if err != nil {
		t.Fatal(err)
	}
	change.Make()
	if _, err := get(t, first); err == nil { // by the connection that it has
		t.Error("an address that is configured no more answers")
	}
}

// TestChangeAfterTheEnd: a reload that ends after the server serves nothing, and holds no address.
func TestChangeAfterTheEnd(t *testing.T) {
	s := New(slog.New(slog.DiscardHandler))
	s.Start(counted{})
	late, err := s.Prepare(config.Metrics{Listen: listenAt("127.0.0.1:0")})
	if err != nil {
		t.Fatal(err)
	}
	var at string
	for _, l := range late.opened {
		at = l.Addr().String()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Run(ctx)
	late.Make()
	if conn, err := net.Dial("tcp", at); err == nil {
		conn.Close()
		t.Errorf("%s still takes connections", at)
	}
}

// TestAddressInTheWayOfAnother: one address and all of its family are the same socket to the kernel.
func TestAddressInTheWayOfAnother(t *testing.T) {
	for _, c := range [][2]string{{"127.0.0.1", "0.0.0.0"}, {"0.0.0.0", "127.0.0.1"}, {"[::1]", "[::]"}} {
		s := New(slog.New(slog.DiscardHandler))
		s.Start(counted{})
		var first, second string
		for first == "" { // until no other process takes the port in between
			free, err := net.Listen("tcp", c[0]+":0")
			if err != nil {
				t.Fatal(err)
			}
			_, port, _ := net.SplitHostPort(free.Addr().String())
			free.Close()
			if change, err := s.Prepare(config.Metrics{Listen: listenAt(c[0] + ":" + port)}); err == nil {
				change.Make()
				first, second = c[0]+":"+port, c[1]+":"+port
			}
		}
		if _, err := s.Prepare(config.Metrics{Listen: listenAt(second)}); err == nil || !strings.Contains(err.Error(), "still listens at "+first) {
			t.Errorf("from %s to %s: %v", first, second, err)
		}
		for _, list := range [][]string{nil, {second}} { // with two reloads
			change, err := s.Prepare(config.Metrics{Listen: listenAt(list...)})
			if err != nil {
				t.Fatalf("from %s to %q: %v", first, list, err)
			}
			change.Make()
		}
		stopped, stop := context.WithCancel(t.Context())
		stop()
		s.Run(stopped)
	}
}

// TestScrapesHaveABound: a client that does not read, and many at once, cost no more than so much.
func TestScrapesHaveABound(t *testing.T) {
	blocked := make(chan struct{})
	_, address := serve(t, slow{blocked: blocked}, config.Metrics{Listen: listenAt("127.0.0.1:0")})
	answers := make(chan error)
	const many = 3 * mostScrapes
	for range many {
		go func() { _, err := get(t, address); answers <- err }()
	}
	refused := 0
	for range many - mostScrapes {
		if err := <-answers; err != nil && strings.Contains(err.Error(), "503") {
			refused++
		}
	}
	close(blocked)
	for range mostScrapes {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	if refused != many-mostScrapes {
		t.Errorf("%d of %d scrapes were refused", refused, many)
	}
}

type slow struct {
	counted
	blocked chan struct{}
}

func (s slow) Status(ctx context.Context) (api.Status, error) {
	<-s.blocked
	return s.counted.Status(ctx)
}
