// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"context"
	"maps"
	"time"

	"loci/control"
	"loci/daemon/api"
	"loci/daemon/eventloop"
	"loci/daemon/hostnet"
	"loci/dataplane"
	"loci/internal/jsondoc"
)

// What `loci show counters` is answered.

// Counters answers `loci show counters`.
func (a *Answers) Counters(ctx context.Context) (api.Counters, error) {
	totals, err := eventloop.Ask(ctx, a.Loop, func(node *control.Node, _ time.Time) map[string]uint64 { return maps.Collect(node.Counters()) })
	if err != nil {
		return api.Counters{}, err
	}
	c := api.Counters{Control: totals, Times: map[string]jsondoc.Seconds{}}
	c.Control["control_queue_full_total"] = a.Sockets.Dropped()
	c.Control["control_message_unsent_total"] = a.Sockets.Unsent()
	a.addIterations(&c)
	if a.Journal != nil {
		journal := a.Journal.Stats()
		c.Control["journal_octets_total"] = journal.Written
		c.Control["journal_pieces_lost_total"] = journal.Lost
		c.Control["journal_writes_failed_total"] = journal.Failed
		c.Times["journal_slowest_write_seconds"] = jsondoc.SecondsOf(journal.SlowestWrite)
	}
	if a.DataPaths != nil {
		checks := a.DataPaths.Counts()
		c.Control["data_path_check_sent_total"] = checks.Sent
		c.Control["data_path_check_answered_total"] = checks.Answered
		c.Control["data_path_check_unanswered_total"] = checks.Unanswered
	}
	a.addTranslations(&c)
	if a.Watch != nil {
		c.Control["interface_news_lost_total"] = a.Watch.Lost.Load()
		c.Control["reverse_path_filtered_packets_total"] = hostnet.FilteredPackets()
	}
	if a.Worker != nil {
		handed := a.Handed.Stats()
		c.Control["handed_packets_total"] = handed.Taken
		c.Control["handed_packets_sent_total"] = handed.Sent
		c.Control["handed_packets_dropped_total"] = handed.Dropped
		c.Control["plane_changes_refused_total"] = a.Worker.Refused()
		addPlaneCounters(&c, a.Plane.Counters())
	}
	return c, nil
}

// addIterations tells how long the event loop's iterations took.
func (a *Answers) addIterations(c *api.Counters) {
	t := a.Loop.Times()
	c.Times["longest_iteration_seconds"] = jsondoc.SecondsOf(t.Longest)
	c.Control["long_iterations_total"] = t.Long
}

func addPlaneCounters(c *api.Counters, p dataplane.Counters) {
	c.Drops = p.Drops
	c.DataPlane = map[string]uint64{
		"encapsulated_packets_total": p.EncapsulatedPackets, "encapsulated_octets_total": p.EncapsulatedOctets,
		"decapsulated_packets_total": p.DecapsulatedPackets, "decapsulated_octets_total": p.DecapsulatedOctets,
		"relayed_packets_total": p.RelayedPackets, "relayed_octets_total": p.RelayedOctets, "proxied_packets_total": p.ProxiedPackets,
		"native_packets_total": p.NativePackets, "miss_packets_total": p.MissPackets,
		"waiting_packets": p.WaitingPackets, "waiting_octets": p.WaitingOctets,
		"released_packets_total": p.ReleasedPackets, "plane_events_lost_total": p.EventsLost,
	}
	maps.Copy(c.DataPlane, p.Other)
}
