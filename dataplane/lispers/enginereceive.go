// SPDX-License-Identifier: Apache-2.0

package lispers

// What the data plane says: restarts, discoveries, statistics. It is not trusted with
// more than that: no message of it changes a mapping, each discovery is limited as if
// the data plane did not, and what is wrong is counted and stops nothing.

import (
	"time"

	"loci/dataplane"
)

func (e *Engine) receive() {
	buffer := receiveBuffer()
	for {
		datagram, err := e.endpoint.receive(buffer)
		if err != nil {
			select {
			case <-e.done:
			default:
				e.options.Log.Error("the lispers.net interface hears the data plane no more", "error", err)
			}
			return
		}
		e.handle(datagram)
	}
}

// handle does what one datagram says.
func (e *Engine) handle(datagram []byte) {
	defer e.tally.add(messagesReceived)
	m, err := decode(datagram)
	if err != nil {
		e.refused(err)
		return
	}
	switch m := m.(type) {
	case restartMessage:
		e.restarted()
	case discoveryMessage:
		e.discovered(m)
	case statisticsMessage:
		e.refused(m.refused...)
		e.used(m.entries)
	case decapStatisticsMessage:
		e.decapsulated(m.counts)
	default:
		e.tally.add(messagesUnexpected)
	}
}

func (e *Engine) refused(errs ...error) {
	for _, err := range errs {
		e.tally.refused(err)
		e.options.Log.Debug("refused what the data plane said", "error", err)
	}
}

// restarted answers with the entire map-cache and the configuration.
func (e *Engine) restarted() {
	e.tally.add(restarts)
	e.options.Log.Info("the data plane of the lispers.net interface began anew")
	e.mu.Lock()
	if !e.closed {
		e.untold.everything(false)
		e.untold.configuration(e.tables.keys.decryption)
	}
	e.mu.Unlock()
	e.rouse()
}

func (e *Engine) discovered(m discoveryMessage) {
	if !e.limiter.allow(e.options.Now(), destination{instance: m.instance, eid: m.destination}) {
		e.tally.add(discoveriesLimited)
		return
	}
	e.tally.add(discoveries)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	e.counters.MissPackets++
	select {
	case e.events <- dataplane.Miss{Instance: m.instance, Source: m.source, Destination: m.destination, Interface: m.interfaceName}:
	default:
		e.counters.EventsLost++
	}
}

// used adds what entries were used. The control plane sees it in Mappings and renews
// what is in use before its TTL ends: that is how statistics refresh a TTL here.
func (e *Engine) used(entries []statisticsEntry) {
	now := e.options.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range entries {
		entry, known := e.tables.mappings[s.prefix]
		if !known {
			e.tally.add(statisticsUnknown)
		}
		for _, r := range s.rlocs {
			e.counters.EncapsulatedPackets += r.use.packets
			e.counters.EncapsulatedOctets += r.use.octets
			entry.Usage.Packets += r.use.packets
			entry.Usage.Octets += r.use.octets
			last := now.Add(-time.Duration(r.use.age * float64(time.Second)))
			if r.use.packets > 0 && last.After(entry.Usage.LastUsedAt) {
				entry.Usage.LastUsedAt = last
			}
		}
		if known {
			e.tables.mappings[s.prefix] = entry
		}
	}
}

// decapDrops names the words of decap-statistics among the reasons for drops.
var decapDrops = map[string]string{
	wordICV: "icv-error", wordChecksum: "checksum-error", wordLISPHeader: "lisp-header-error", wordNoKey: "no-decrypt-key",
	wordInnerVersion: "bad-inner-version", wordOuterHeader: "outer-header-error",
}

func (e *Engine) decapsulated(counts map[string]use) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for word, u := range counts {
		if word == wordGood {
			e.counters.DecapsulatedPackets += u.packets
			e.counters.DecapsulatedOctets += u.octets
			continue
		}
		e.counters.Drops[decapDrops[word]] += u.packets
	}
}
