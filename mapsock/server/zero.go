// SPDX-License-Identifier: Apache-2.0

package server

// Counters that begin at 0 again, as OpenLISP's mapstat -z wants them. The engine's own
// count on, because others read them as well: the server keeps what they were, and
// takes it away for those who ask for what came since.

import "loci/mapsock"

// zeroCounters begins anew, for everyone who asks for what came since.
func (c *session) zeroCounters(m *mapsock.Message) error {
	var now mapsock.Message
	now.SetCounters(c.server.allCounters())
	c.server.zeroed.Store(&now.Counts)
	if err := c.reply(m); err != nil {
		return err
	}
	m.Flags &^= mapsock.FlagOwn
	b, err := m.Append(nil)
	if err == nil {
		few := c.server.tell(b, 1, mapsock.HearOperations, c)
		few.flush()
	}
	return err
}

// since takes from counts what they were at an earlier moment. What tells how much there
// is now, such as packets that wait, stays as it is.
func since(counts, before []mapsock.Count) {
	type named struct {
		attribute mapsock.Attribute
		name      string
	}
	earlier := make(map[named]uint64, len(before))
	for _, c := range before {
		earlier[named{c.Attribute, c.Name}] = c.Value
	}
	for i := range counts {
		c := &counts[i]
		if was := earlier[named{c.Attribute, c.Name}]; !tellsNow[c.Name] {
			c.Value -= min(c.Value, was) // an engine that was made anew counts from 0
		}
	}
}

// tellsNow are the counters that tell how much there is now.
var tellsNow = map[string]bool{"waiting_packets": true, "waiting_octets": true, "mapsock_clients": true}
