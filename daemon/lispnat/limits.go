// SPDX-License-Identifier: Apache-2.0

package lispnat

// Whether the kernel has room for more sessions: the free ports of pools, and the table of connection tracking. The
// kernel counts for the whole network namespace what it refuses.

import (
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// standsFor is for how long a refusal is a problem of now.
const standsFor = time.Minute

// limits are what was seen of refusals.
type limits struct {
	known   bool
	failed  uint64 // the kernel's insert_failed: the ports of a pool were all taken
	dropped uint64 // the kernel's drop: no room, insert_failed among it
	begun   uint64 // sessions of ours

	ports, table refusals
}

// refusals are those for one reason.
type refusals struct {
	sum    uint64
	lastAt time.Time
}

// Why sessions are refused.
const (
	portsTaken = "LISP-NAT refuses sessions: the ports of a pool are all in use"
	tableFull  = "LISP-NAT refuses sessions: the kernel's connection tracking is full"
)

// look notes what was refused since the last look. begun is how many sessions were given an address of a pool.
func (l *limits) look(now time.Time, begun uint64, log *slog.Logger) {
	failed, dropped := refusedByKernel()
	if l.known {
		// Others may translate on this host: of what the kernel refused at most so many were ours.
		if l.ports.add(now, min(grown(failed, l.failed), grown(begun, l.begun))) {
			log.Warn(portsTaken)
		}
		if l.table.add(now, grown(grown(dropped, l.dropped), grown(failed, l.failed))) {
			log.Warn(tableFull)
		}
	}
	l.known, l.failed, l.dropped, l.begun = true, failed, dropped, begun
}

// add reports whether there are refusals after a time without.
func (r *refusals) add(now time.Time, more uint64) (begins bool) {
	if more == 0 {
		return false
	}
	begins = now.Sub(r.lastAt) > standsFor
	r.sum, r.lastAt = r.sum+more, now
	return begins
}

// stands reports whether there were refusals just now.
func (r *refusals) stands(now time.Time) bool { return r.sum > 0 && now.Sub(r.lastAt) < standsFor }

func grown(now, before uint64) uint64 {
	if now < before {
		return 0
	}
	return now - before
}

// refusedByKernel reads the counters of connection tracking: a line of names, then one of hexadecimal numbers a
// processor.
func refusedByKernel() (failed, dropped uint64) {
	text, _ := os.ReadFile("/proc/thread-self/net/stat/nf_conntrack") // where it is absent, nothing is tracked
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	names := strings.Fields(lines[0])
	sum := func(name string) (total uint64) {
		for _, line := range lines[1:] {
			values := strings.Fields(line)
			if i := slices.Index(names, name); i >= 0 && i < len(values) {
				value, _ := strconv.ParseUint(values[i], 16, 64)
				total += value
			}
		}
		return total
	}
	return sum("insert_failed"), sum("drop")
}

// tracked is how many connections the kernel tracks, and how many it can.
func tracked() (count, limit uint64) {
	read := func(name string) uint64 {
		text, _ := os.ReadFile("/proc/sys/net/netfilter/" + name)
		value, _ := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
		return value
	}
	return read("nf_conntrack_count"), read("nf_conntrack_max")
}
