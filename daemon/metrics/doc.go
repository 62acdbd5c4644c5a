// SPDX-License-Identifier: Apache-2.0

// Package metrics serves what a daemon counts to Prometheus, by HTTP at /metrics: every counter of docs/counters.md,
// the sizes of tables, and how long resolutions and registrations took. How many time series there are does not
// depend on the number of mappings, unless the configuration asks for counters of each mapping.
//
// A scrape reads what `loci show` reads, and nothing is kept between scrapes. A build with the tag nometrics has
// none of it: Present says so, and a configuration with addresses is refused.
//
// Server has the lock, which guards the addresses that are served and whether it has ended.
package metrics

import (
	"context"
	"iter"

	"loci/control"
	"loci/daemon/api"
)

// Source is what the metrics are made of; the daemon is one.
type Source interface {
	Status(context.Context) (api.Status, error)
	Counters(context.Context) (api.Counters, error)
	Times(context.Context) (Times, error)
	NATSummary(context.Context) (api.NAT, error) // without the bindings themselves
	MapCache(context.Context, api.ListQuery) iter.Seq2[api.MapCacheEntry, error]
}

// Times are how long things took since the daemon started.
type Times struct {
	Resolutions   control.Durations // from the first Map-Request to its Map-Reply
	Registrations control.Durations // from the first Map-Register to the Map-Notify that has all of it
}
