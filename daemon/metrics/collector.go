// SPDX-License-Identifier: Apache-2.0

//go:build !nometrics

package metrics

// A scrape: what the daemon tells, as metrics.

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"loci/control"
	"loci/daemon/api"
)

// mostMappings have metrics of their own, where the configuration asks for that: a scrape of them ends well within
// scrapeTimeout.
const mostMappings = 10000

// collector is a prometheus.Collector.
type collector struct {
	from       Source
	perMapping *atomic.Bool
	log        *slog.Logger
}

// Describe tells of no metric: which counters there are depends on the roles and the data plane.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector. A part that cannot be asked, because the daemon stops, is left out.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	s := scrape{to}
	for _, part := range []func(context.Context, scrape) error{c.status, c.nat, c.counters, c.times, c.mappings} {
		if err := part(ctx, s); err != nil {
			c.log.Warn("metrics", "error", err)
			return
		}
	}
}

// A scrape takes metrics.
type scrape struct{ to chan<- prometheus.Metric }

func (s scrape) put(name, help string, kind prometheus.ValueType, value float64, labels ...string) {
	var names, values []string
	for i := 0; i < len(labels); i += 2 {
		names, values = append(names, labels[i]), append(values, labels[i+1])
	}
	s.to <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, names, nil), kind, value, values...)
}

func (s scrape) gauge(name, help string, value float64, labels ...string) {
	s.put(name, help, prometheus.GaugeValue, value, labels...)
}

func isTrue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (c *collector) status(ctx context.Context, s scrape) error {
	status, err := c.from.Status(ctx)
	if err != nil {
		return err
	}
	s.gauge("loci_info", "Which Loci this is.", 1, "version", status.Version, "engine", status.Engine)
	s.gauge("loci_start_time_seconds", "When the daemon started, in seconds since 1970.", float64(status.StartedAt.UnixNano())/1e9)
	s.gauge("loci_ready", "Whether the router forwards packets, or the mapping system answers.", isTrue(status.Ready))
	s.gauge("loci_warnings", "Problems that `loci show status` tells.", float64(len(status.Warnings)))
	s.gauge("loci_map_cache_entries", "Mappings of the map-cache.", float64(status.MapCacheSize))
	if c.perMapping.Load() {
		s.gauge("loci_mappings_left_out", "Map-cache entries beyond those that have metrics of their own.", float64(max(status.MapCacheSize-mostMappings, 0)))
	}
	s.gauge("loci_pending_map_requests", "EID-Prefixes that are asked for.", float64(status.Pending))
	s.gauge("loci_duplicate_eid_prefixes", "EID-Prefixes of this router that another one registers too.", float64(status.DuplicateEIDs))
	s.gauge("loci_lost_mappings", "EID-Prefixes in use that had locators within the last hour and are not registered now.", float64(status.LostMappings))
	s.gauge("loci_registered_eid_prefixes", "EID-Prefixes registered with this Map-Server.", float64(status.Registrations))
	for _, m := range status.MapServers {
		labels := []string{"map_server", m.Address, "site", m.Site}
		if knowsRegistration(m) {
			s.gauge("loci_map_server_registered", "Whether the Map-Server acknowledges all EID-Prefixes of this router.", isTrue(m.State == string(control.MapServerRegistered)), labels...)
		}
		s.gauge("loci_map_server_eid_prefixes", "EID-Prefixes that this router registers there.", float64(m.EIDPrefixes), labels...)
		s.gauge("loci_map_server_unacknowledged_eid_prefixes", "EID-Prefixes that the Map-Server does not acknowledge.", float64(m.LackingCount), labels...)
	}
	for _, m := range status.MapResolverStates {
		s.gauge("loci_map_resolver_answers", "Whether the Map-Resolver answers: 0 only when it is silent.", isTrue(m.State != string(control.MapResolverSilent)), "map_resolver", m.Address)
	}
	return nil
}

// nat tells how this router looks from outside, and of its RTR; and of the bindings of an RTR.
func (c *collector) nat(ctx context.Context, s scrape) error {
	nat, err := c.from.NATSummary(ctx)
	if err != nil {
		return err
	}
	s.gauge("loci_nat_hosts", "Hosts behind NATs that this RTR knows by simple-nat.", float64(nat.HostCount))
	s.gauge("loci_nat_bindings", "EID-Prefixes of routers behind NATs that this RTR forwards packets to.", float64(nat.BindingCount))
	for _, v := range nat.Views {
		if v.AnsweredAt != nil {
			s.gauge("loci_behind_nat", "Whether a NAT is between this router's RLOC and the Map-Server.", isTrue(v.BehindNAT),
				"map_server", v.MapServer, "rloc", v.RLOC.String())
		}
	}
	for _, r := range nat.RTRs {
		rtr := []string{"rtr", r.Address.String(), "rloc", r.RLOC.String()}
		s.gauge("loci_rtr_answers", "Whether the RTR answers by which this router registers.", isTrue(!r.Silent), rtr...)
		s.gauge("loci_rtr_confirmed", "Whether the RTR has said that it knows this router's address.", isTrue(r.ConfirmedAt != nil), rtr...)
	}
	return nil
}

// knowsRegistration reports whether there is something to register, and a Map-Notify is wanted that would tell of it.
func knowsRegistration(m api.MapServer) bool {
	switch control.MapServerState(m.State) {
	case control.MapServerWaiting, control.MapServerPartial, control.MapServerRegistered:
		return true
	}
	return false
}

func (c *collector) counters(ctx context.Context, s scrape) error {
	all, err := c.from.Counters(ctx)
	if err != nil {
		return err
	}
	help := map[string]string{}
	for _, info := range control.CounterList() {
		help[info.Name] = info.Description
	}
	for name, value := range all.Control {
		s.counter(name, help[name], float64(value))
	}
	for name, value := range all.DataPlane {
		s.counter(name, "", float64(value))
	}
	for name, took := range all.Times {
		s.counter(name, "", float64(took))
	}
	for reason, packets := range all.Drops {
		s.put("loci_dropped_packets_total", "Packets that the data plane did not forward, by reason.", prometheus.CounterValue, float64(packets), "reason", reason)
	}
	return nil
}

// counter tells of a counter of docs/counters.md.
func (s scrape) counter(name, help string, value float64) {
	n := nameOf(name)
	if n.reason != "" {
		s.put(n.metric, "Messages and records that were refused, by reason.", n.kind, value, "reason", n.reason)
		return
	}
	if help == "" {
		help = "See " + name + " in docs/counters.md."
	}
	s.put(n.metric, help, n.kind, value)
}

func (c *collector) times(ctx context.Context, s scrape) error {
	times, err := c.from.Times(ctx)
	if err != nil {
		return err
	}
	s.histogram("loci_resolution_duration_seconds", "From the first Map-Request for an EID-Prefix to its Map-Reply.", times.Resolutions)
	s.histogram("loci_registration_duration_seconds", "From a Map-Register, or the first of those that were lost, to the Map-Notify that has all of its EID-Prefixes.", times.Registrations)
	return nil
}

func (s scrape) histogram(name, help string, d control.Durations) {
	buckets := map[float64]uint64{}
	var sum uint64
	for i, bound := range control.DurationBounds() {
		sum += d.Within[i]
		buckets[bound.Seconds()] = sum
	}
	s.to <- prometheus.MustNewConstHistogram(prometheus.NewDesc(name, help, nil, nil), d.Count, d.Sum.Seconds(), buckets)
}

// mappings tells of the first map-cache entries, where the configuration asks for that.
func (c *collector) mappings(ctx context.Context, s scrape) error {
	if !c.perMapping.Load() {
		return nil
	}
	told := 0
	for entry, err := range c.from.MapCache(ctx, api.ListQuery{Limit: mostMappings}) {
		if err != nil {
			return err
		}
		if told++; told > mostMappings { // Limit bounds a page, not the list
			break
		}
		prefix := fmt.Sprintf("%s/%d", entry.EIDPrefix.EID(), entry.EIDPrefix.Bits())
		labels := []string{"instance_id", strconv.FormatUint(uint64(entry.EIDPrefix.Instance()), 10), "eid_prefix", prefix}
		s.put("loci_mapping_packets_total", "Packets that went by a map-cache entry.", prometheus.CounterValue, float64(entry.Packets), labels...)
		s.put("loci_mapping_octets_total", "Their octets.", prometheus.CounterValue, float64(entry.Octets), labels...)
	}
	return nil
}
