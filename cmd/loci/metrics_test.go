// SPDX-License-Identifier: Apache-2.0

package main_test

// Metrics of running daemons, as Prometheus reads them, and through reloads.

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// scrapes is a client within the namespace of a daemon, which keeps its connections.
func (n *lispNetwork) scrapes(name string) *http.Client {
	transport := &http.Transport{DialContext: func(_ context.Context, _, address string) (c net.Conn, err error) {
		err = n.at[name].Do(func() (err error) { c, err = net.Dial("tcp", address); return err })
		return c, err
	}}
	n.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// scrape reads the metrics of a daemon.
func scrape(client *http.Client, address string) (string, error) {
	answer, err := client.Get("http://" + address + "/metrics")
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, body)
	}
	return string(body), err
}

// metric is a value of a scrape; -1 where it is not there.
func metric(text, name string) float64 {
	m := regexp.MustCompile("(?m)^" + regexp.QuoteMeta(name) + " (.*)$").FindStringSubmatch(text)
	if m == nil {
		return -1
	}
	value, _ := strconv.ParseFloat(m[1], 64)
	return value
}

func TestMetrics(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	served := func(listen string) string { return n.xtr(1) + "metrics: {listen: [" + listen + "]}\n" }
	n.run("ms", n.mappingSystem())
	n.run("xtr1", served(`"127.0.0.1:9343", "[::1]:9343"`))
	n.run("xtr2", n.xtr(2))
	n.awaitRegistrations(4)
	n.pingAll(3)
	client := n.scrapes("xtr1")
	for _, address := range []string{"127.0.0.1:9343", "[::1]:9343"} {
		text, err := scrape(client, address)
		n.must(err)
		for name, least := range map[string]float64{
			"loci_ready": 1, "loci_map_cache_entries": 2, "loci_encapsulated_packets_total": 6, "loci_decapsulated_packets_total": 6,
			"loci_map_request_sent_total": 2, "loci_resolution_duration_seconds_count": 2, "loci_registration_duration_seconds_count": 1,
			`loci_map_server_registered{map_server="172.16.9.2:4342",site=""}`: 1, `loci_map_resolver_answers{map_resolver="172.16.9.2:4342"}`: 1,
			`loci_dropped_packets_total{reason="no-route"}`: 0, "process_open_fds": 1,
		} {
			if got := metric(text, name); got < least {
				t.Errorf("%s: %s is %g, want %g or more", address, name, got, least)
			}
		}
		if took := metric(text, "loci_resolution_duration_seconds_sum"); took <= 0 || took > 60 {
			t.Errorf("resolutions took %g s", took)
		}
		if strings.Contains(text, "loci_mapping_packets_total") {
			t.Error("metrics of each mapping, which the configuration does not have")
		}
	}

	n.reconfigure("xtr1", n.xtr(1)+"metrics: {listen: ['[2001:db8:1::2]:9344'], per-mapping: true}\n")
	text, err := scrape(client, "[2001:db8:1::2]:9344")
	n.must(err)
	for _, prefix := range []string{"10.2.0.0/24", "fd00:2::/64"} {
		if got := metric(text, fmt.Sprintf("loci_mapping_packets_total{eid_prefix=%q,instance_id=\"0\"}", prefix)); got < 3 {
			t.Errorf("%g packets by the mapping of %s", got, prefix)
		}
	}
	if _, err := scrape(client, "127.0.0.1:9343"); err == nil {
		t.Error("the address that was left answers")
	}

	var taken net.Listener
	n.must(n.at["xtr1"].Do(func() (err error) { taken, err = net.Listen("tcp", "127.0.0.1:9345"); return err }))
	defer taken.Close()
	n.must(os.WriteFile(n.file("xtr1"), []byte(served(`"127.0.0.1:9345"`)), 0o600))
	if out, status := n.loci("xtr1", "reload", "--socket", n.socket("xtr1")); status == 0 || !strings.Contains(out, "metrics.listen: 127.0.0.1:9345") {
		t.Errorf("a reload with another program's address: status %d, %s", status, out)
	}
	if _, err := scrape(client, "[2001:db8:1::2]:9344"); err != nil {
		t.Errorf("after a refused reload: %v", err)
	}
}
