// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/dataplane/model"
	"loci/lisp"
	"loci/mapsock"
)

// puts are operations on a thousand prefixes.
func puts() []dataplane.Operation {
	var all []dataplane.Operation
	for i := range 1000 {
		all = append(all, to(fmt.Sprintf("10.2.%d.%d/32", i>>8, i&255), "192.0.2.2"))
	}
	return all
}

// An operation is an add, so ns/op are for one of them.
func BenchmarkAdd(b *testing.B) {
	for _, test := range []struct{ together, listeners int }{{1, 1}, {100, 1}, {1, 64}, {100, 64}} {
		b.Run(fmt.Sprintf("%dtogether/%dlisteners", test.together, test.listeners), func(b *testing.B) {
			s := serve(b, Options{})
			c := s.dial(b)
			var group sync.WaitGroup
			lost := make([]uint64, test.listeners)
			var monitors []*mapsock.Monitor
			for i := range test.listeners {
				m := s.monitor(b, mapsock.HearOperations)
				_ = m.SetDeadline(time.Time{})
				monitors = append(monitors, m)
				group.Go(func() { lost[i] = listenToEnd(m) })
			}
			operations := puts()
			b.ResetTimer()
			for done := 0; done < b.N; done += test.together {
				at := done % (len(operations) - test.together + 1)
				apply(b, c, operations[at:at+test.together]...)
			}
			b.StopTimer()
			apply(b, c, dataplane.Flush{MapCache: true}) // the last that all hear
			group.Wait()
			b.ReportMetric(float64(slices.Max(lost)), "lost")
			for _, m := range monitors {
				_ = m.Close()
			}
		})
	}
}

// An operation is an add beside listeners that have stopped and lost messages: what it takes
// of the processors more than without them is what they cost.
func BenchmarkAddBesideStopped(b *testing.B) {
	for _, stopped := range []int{0, 1, 64} {
		b.Run(fmt.Sprintf("%dlisteners", stopped), func(b *testing.B) {
			s := serve(b, Options{Limits: Limits{QueueOctets: 64 << 10}})
			c := s.dial(b)
			for range stopped {
				s.monitor(b, mapsock.HearOperations)
			}
			operations := puts()
			for range 100 { // until all have lost some
				apply(b, c, operations[:1000]...)
			}
			if lost := s.server.Counters()["mapsock_messages_lost_total"]; lost == 0 && stopped > 0 {
				b.Fatal("nothing is lost")
			}
			before := processorTime(b)
			for b.Loop() {
				apply(b, c, operations[0])
			}
			b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "processor-ns/op")
		})
	}
}

// processorTime is what this process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// listenToEnd listens until a flush and counts what was lost.
func listenToEnd(m *mapsock.Monitor) (lost uint64) {
	for {
		message, err := m.Next()
		if err != nil || message.Type == mapsock.TypeFlush {
			return lost
		}
		lost += message.Lost
	}
}

// An operation is a miss, told to all before the next.
func BenchmarkEvent(b *testing.B) {
	for _, listeners := range []int{1, 64} {
		b.Run(fmt.Sprintf("%dlisteners", listeners), func(b *testing.B) {
			s := serve(b, Options{})
			apply(b, s.engine, own("10.1.0.0/24"))
			heard := make(chan time.Time, listeners)
			for range listeners {
				m := s.monitor(b, mapsock.HearEvents)
				_ = m.SetDeadline(time.Time{})
				go func() {
					for {
						if _, err := m.Next(); err != nil {
							return
						}
						heard <- time.Now()
					}
				}()
			}
			var latencies []time.Duration
			for i := 0; b.Loop(); i++ {
				begin := time.Now()
				s.engine.Send("site0", packetTo(fmt.Sprintf("10.%d.%d.%d", 10+i>>16, i>>8&255, i&255)))
				for range listeners {
					if at := <-heard; len(latencies) <= i {
						latencies = append(latencies, at.Sub(begin))
					} else {
						latencies[i] = max(latencies[i], at.Sub(begin))
					}
				}
			}
			slices.Sort(latencies)
			b.ReportMetric(float64(latencies[len(latencies)/2].Microseconds()), "median-µs-to-last")
		})
	}
}

// million is an engine with a million mappings, which costs no time itself.
type million struct{ dataplane.Plane }

// Mappings makes them as it goes.
func (million) Mappings() iter.Seq[dataplane.MapCacheEntry] {
	return func(yield func(dataplane.MapCacheEntry) bool) {
		entry := to("10.0.0.0/24", "192.0.2.2", "192.0.2.3").Entry
		for i := range uint32(1 << 20) {
			address := [4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}
			entry.Mapping.Prefix = lisp.HostPrefix(7, lisp.EIDFromAddr(netip.AddrFrom4(address)))
			if !yield(entry) {
				return
			}
		}
	}
}

// A dump of a million entries, while another client adds one mapping after another.
func BenchmarkDumpMillion(b *testing.B) {
	path := socketPath(b)
	offered := New(million{model.New(model.Options{})}, Options{})
	b.Cleanup(func() { _ = offered.Close() })
	l, err := Listen(path, Access{UID: -1, GID: -1})
	if err != nil {
		b.Fatal(err)
	}
	go offered.Serve(l) // ends with the server
	s := &served{path: path}
	c, other := s.dial(b), s.dial(b)
	var answers []time.Duration
	for b.Loop() {
		done := make(chan int)
		go func() {
			entries := 0
			for range c.DumpMappings() {
				entries++
			}
			done <- entries
		}()
		for waiting := true; waiting; {
			begin := time.Now()
			apply(b, other, to("10.2.0.0/24", "192.0.2.2"))
			answers = append(answers, time.Since(begin))
			select {
			case entries := <-done:
				waiting = false
				if entries != 1<<20 {
					b.Fatalf("%d entries", entries)
				}
			default:
			}
		}
	}
	slices.Sort(answers)
	b.ReportMetric(float64(answers[len(answers)*99/100].Microseconds()), "p99-µs-of-others")
}
