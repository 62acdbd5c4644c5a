// SPDX-License-Identifier: Apache-2.0

//go:build !nometrics

package metrics

// The names of metrics: those of docs/counters.md behind "loci_", in Prometheus' spelling.

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// A named is what becomes of one counter of docs/counters.md.
type named struct {
	metric string
	reason string // of a refusal: the label
	kind   prometheus.ValueType
}

// gaugeEndings are of those that do not only grow.
var gaugeEndings = []string{"waiting_packets", "waiting_octets", "mapsock_clients", "_seconds"}

// otherNames are of those that Prometheus' rules take for something else: bits for a unit.
var otherNames = map[string]string{"status_bits_changed": "locator_status_changed"}

func nameOf(counter string) named {
	name := strings.ReplaceAll(counter, "-", "_") // names of reasons have hyphens
	if other, ok := otherNames[name]; ok {
		name = other
	}
	if reason, ok := strings.CutPrefix(name, "refused_"); ok && strings.HasSuffix(reason, "_total") {
		return named{"loci_refused_total", strings.ReplaceAll(strings.TrimSuffix(reason, "_total"), "_", "-"), prometheus.CounterValue}
	}
	for _, ending := range gaugeEndings {
		if strings.HasSuffix(name, ending) {
			return named{"loci_" + name, "", prometheus.GaugeValue}
		}
	}
	return named{"loci_" + strings.TrimSuffix(name, "_total") + "_total", "", prometheus.CounterValue}
}
