// SPDX-License-Identifier: Apache-2.0

// The scrapes of `loci bench scale`: what Prometheus costs a daemon with a full map-cache.

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"loci/internal/testnet"
	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
)

const (
	scrapeAddress = "127.0.0.1:9343"
	// scrapeTimes is enough for the kernel's clock of processor time, which counts 10 ms.
	scrapeTimes = 100
)

// scrapes is the processor time that a scrape takes, whatever else the daemon does meanwhile included.
func scrapes(ctx context.Context, ns *testnet.Namespace, p *testbed.Process) (report.Sample, error) {
	client := http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (c net.Conn, err error) {
		err = ns.Do(func() (err error) { c, err = net.Dial("tcp", scrapeAddress); return err })
		return c, err
	}}}
	defer client.CloseIdleConnections()
	before, err1 := testbed.ProcessorTime(p.PID())
	for range scrapeTimes {
		if err := scrape(ctx, &client); err != nil {
			return report.Sample{}, err
		}
	}
	after, err2 := testbed.ProcessorTime(p.PID())
	each := (after - before) / scrapeTimes
	return report.Figure("processor time of a scrape", "ms", float64(each)/float64(time.Millisecond)), errors.Join(err1, err2)
}

func scrape(ctx context.Context, client *http.Client) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+scrapeAddress+"/metrics", nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	octets, err := io.Copy(io.Discard, answer.Body)
	if err == nil && (answer.StatusCode != http.StatusOK || octets == 0) {
		err = fmt.Errorf("metrics: %s, %d octets", answer.Status, octets)
	}
	return err
}
