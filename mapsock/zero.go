// SPDX-License-Identifier: Apache-2.0

package mapsock

// Counters that begin at 0 again, as OpenLISP's mapstat -z wants them. The engine's own
// count on, because others read them as well: the server keeps what they were, and
// takes it away for those who ask for what came since.

import "loci/dataplane"

// zeroCounters begins anew, for everyone who asks for what came since.
func (c *session) zeroCounters(m *Message) error {
	counters := c.server.allCounters()
	c.server.zeroed.Store(&counters)
	if err := c.reply(m); err != nil {
		return err
	}
	m.Flags &^= FlagOwn
	b, err := m.Append(nil)
	if err == nil {
		few := c.server.tell(b, 1, HearOperations, c)
		few.flush()
	}
	return err
}

// since is what was counted after an earlier moment. What tells how much there is now,
// such as packets that wait, stays as it is.
func since(now dataplane.Counters, before *dataplane.Counters) dataplane.Counters {
	if before == nil {
		return now
	}
	difference := now
	for _, known := range counterNames {
		*known.of(&difference) = less(*known.of(&now), *known.of(before))
	}
	difference.WaitingPackets, difference.WaitingOctets = now.WaitingPackets, now.WaitingOctets
	difference.Drops, difference.Other = lessAll(now.Drops, before.Drops), lessAll(now.Other, before.Other)
	if clients, there := now.Other["mapsock_clients"]; there {
		difference.Other["mapsock_clients"] = clients
	}
	return difference
}

func lessAll(now, before map[string]uint64) map[string]uint64 {
	difference := make(map[string]uint64, len(now))
	for name, n := range now {
		difference[name] = less(n, before[name])
	}
	return difference
}

// less never falls below 0: an engine that was made anew counts from there.
func less(now, before uint64) uint64 { return now - min(now, before) }
