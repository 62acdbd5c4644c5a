// SPDX-License-Identifier: Apache-2.0

// What a listener that does not read does to forwarding, for `loci bench mapsock`: nothing, it should. Packets of a known
// mapping are forwarded as fast as they come while adds are told to the listeners, and what is forwarded is counted with and
// without one that is connected and never reads. Each measurement is the median of several blocks, in which the two alternate
// so that what changes steadily meanwhile cancels out: without, beside, beside, without.

package controlplane

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
	"loci/lisp"
	"loci/mapsock"
)

const (
	// stoppedBlocks make a measurement: one that another process disturbs is none of the middle ones.
	stoppedBlocks = 5
	// stoppedShortest is the least that one of the four parts of a block lasts.
	stoppedShortest = 75 * time.Millisecond
	// overflowing octets of adds are more than the queue of a listener and its socket, of ten datagrams, hold.
	overflowing = 6 << 20
	// toldInterval is how often a datagram of adds is told while packets are forwarded.
	toldInterval = 10 * time.Millisecond
)

// stoppedRun is one measurement of what a stopped listener does.
type stoppedRun struct {
	plane  *mapsockPlane
	writer *mapConnection
	added  int
	lost   uint64 // messages that the stopped listener lost
}

func (p *mapsockPlane) measureStopped(ctx context.Context, slot time.Duration) (samples []report.Sample, err error) {
	heard, err := newAudience(p.socket, mapsock.HearOperations, 1)
	if err != nil {
		return nil, err
	}
	defer heard.close()
	r := stoppedRun{plane: p}
	if r.writer, err = dialMapsock(p.socket); err != nil {
		return nil, err
	}
	defer r.writer.close()
	add := addOf(netip.PrefixFrom(stoppedTo, 32), testbed.Core4Dec.Addr())
	if err := r.writer.ask(&add); err != nil {
		return nil, err
	}
	var ratios []float64
	for range stoppedBlocks {
		ratio, err := r.compare(ctx, max(slot/(4*stoppedBlocks), stoppedShortest))
		if err != nil {
			return nil, err
		}
		ratios = append(ratios, ratio)
	}
	slices.Sort(ratios)
	if _, err := heard.await(ctx, int64(r.added)+1); err != nil {
		return nil, err
	}
	return []report.Sample{
		report.Figure("forwarded beside it", "times", report.Percentile(ratios, 0.5)), report.Figure("lost by the stopped listener", "messages", float64(r.lost)),
		report.Figure("lost by the other listener", "messages", float64(heard.lost.Load())),
	}, ctx.Err()
}

// stoppedTo is where the packets go.
var stoppedTo = host(mapsockAdded, addedPrefixes)

// forward sends packets as fast as they are taken, until the function that it returns is called.
func (p *mapsockPlane) forward() (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	var sending sync.WaitGroup
	var failed error
	sending.Go(func() {
		payload := make([]byte, echoOctets)
		for ctx.Err() == nil && failed == nil {
			_, err := p.packet.WriteToUDPAddrPort(payload, netip.AddrPortFrom(stoppedTo, 9))
			if !errors.Is(err, unix.ENOBUFS) {
				failed = err
			}
		}
	})
	return func() error {
		cancel()
		sending.Wait()
		return failed
	}
}

// compare is what is forwarded beside a stopped listener over what is without.
func (r *stoppedRun) compare(ctx context.Context, each time.Duration) (ratio float64, err error) {
	first, err := r.rate(ctx, each)
	if err != nil {
		return 0, err
	}
	beside, err := r.besideStopped(ctx, each)
	if err != nil {
		return 0, err
	}
	last, err := r.rate(ctx, each)
	return beside / ((first + last) / 2), err
}

// besideStopped is the mean of two rates beside a listener whose queue is full.
func (r *stoppedRun) besideStopped(ctx context.Context, each time.Duration) (packetsPerSecond float64, err error) {
	before, err := r.counters()
	if err != nil {
		return 0, err
	}
	stopped, err := r.connectStopped()
	if err != nil {
		return 0, err
	}
	defer unix.Close(stopped)
	if err := r.overflow(); err != nil {
		return 0, err
	}
	second, err := r.rate(ctx, each)
	if err != nil {
		return 0, err
	}
	third, err := r.rate(ctx, each)
	if err != nil {
		return 0, err
	}
	after, err := r.counters()
	lost := after[countedLost] - before[countedLost]
	if r.lost += lost; err == nil && lost == 0 {
		err = errors.New("the stopped listener lost nothing: it was none")
	}
	return (second + third) / 2, err
}

// countedLost counts messages that any listener lost.
const countedLost = "mapsock_messages_lost_total"

// rate is how many packets are encapsulated a second while adds are told.
func (r *stoppedRun) rate(ctx context.Context, each time.Duration) (packetsPerSecond float64, err error) {
	stop := r.plane.forward()
	first, err := r.counters()
	began := time.Now()
	for err == nil && time.Since(began) < each && ctx.Err() == nil {
		err = r.tell(1)
		time.Sleep(toldInterval)
	}
	took := time.Since(began)
	last, failed := r.counters()
	if err := errors.Join(err, failed, stop(), ctx.Err()); err != nil {
		return 0, err
	}
	forwarded := last["encapsulated_packets"] - first["encapsulated_packets"]
	if forwarded == 0 {
		return 0, errors.New("no packet was forwarded")
	}
	return float64(forwarded) / took.Seconds(), nil
}

// connectStopped connects a listener that hears everything and reads nothing.
func (r *stoppedRun) connectStopped() (fd int, err error) {
	if fd, err = connectMapsock(r.plane.socket); err != nil {
		return 0, err
	}
	m := mapsock.Message{Type: mapsock.TypeListen, Hearing: mapsock.HearOperations | mapsock.HearEvents}
	m.Mark(mapsock.AttributeListen)
	ask, err := m.Append(nil)
	if err == nil {
		_, err = unix.Write(fd, ask)
	}
	if err != nil {
		unix.Close(fd)
	}
	return fd, err
}

// tell adds so many datagrams of mappings, of which listeners hear.
func (r *stoppedRun) tell(datagrams int) error {
	for range datagrams {
		if err := r.writer.sendAdds(r.added, addsTogether); err != nil {
			return err
		}
		r.added += addsTogether
		if err := r.writer.await(addsTogether); err != nil {
			return err
		}
	}
	return nil
}

// overflow tells more than a listener's queue holds, by few messages as long as can be: of a mapping with all the locators
// that there may be.
func (r *stoppedRun) overflow() error {
	long := addOf(netip.PrefixFrom(overflowingTo, 32), testbed.Core4Dec.Addr())
	for n := uint32(1); len(long.Locators) < lisp.MaxLocators; n++ {
		another := long.Locators[0]
		another.RLOC = lisp.RLOCFromAddr(host(overflowingRLOCs, n))
		long.Locators = append(long.Locators, another)
	}
	for told := 0; told < overflowing; told += len(r.writer.out) {
		count, err := r.writer.sendFull(&long)
		if err != nil {
			return err
		}
		r.added += count
		if err := r.writer.await(count); err != nil {
			return err
		}
	}
	return nil
}

// The mapping that fills queues, and the locators that nothing is sent to.
var (
	overflowingTo    = host(mapsockAdded, addedPrefixes+1)
	overflowingRLOCs = netip.MustParsePrefix("203.0.113.0/24")
)

// counters are those of the data plane and of its mapping socket, by name.
func (r *stoppedRun) counters() (map[string]uint64, error) {
	if err := r.writer.ask(&mapsock.Message{Type: mapsock.TypeGetCounters}); err != nil {
		return nil, err
	}
	all := map[string]uint64{}
	for _, c := range r.writer.message.Counts {
		all[c.Name] = c.Value
	}
	return all, nil
}
