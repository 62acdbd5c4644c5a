// SPDX-License-Identifier: Apache-2.0

// Where the processes of `loci bench mapsock` run. A core that sleeps is woken for every message that goes to it, which in a
// virtual machine can cost several times what the message does. Cases on one core leave that out: it never sleeps. What it
// costs between two is a figure of its own, taken from two threads that do nothing but answer each other.

package controlplane

import (
	"context"
	"errors"
	"os"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
)

// sharingCore runs f while the data plane and the bench share the core that the server has in other benches.
func (p *mapsockPlane) sharingCore(f func() ([]report.Sample, error)) (samples []report.Sample, err error) {
	me := os.Getpid()
	defer func() { err = errors.Join(err, testbed.Unpin(me), testbed.Unpin(p.daemon)) }()
	if err := errors.Join(testbed.Pin(me, testbed.ServerCPU), testbed.Pin(p.daemon, testbed.ServerCPU)); err != nil {
		return nil, err
	}
	time.Sleep(coresNoticed)
	return f()
}

// coresNoticed is what the data plane's runtime needs to see how many cores it has.
const coresNoticed = 1100 * time.Millisecond

// measureEcho lets a datagram go to another core and back, over and over: one system call to send and one to wait at each
// end, as with an add and its answer, and nothing else.
func measureEcho(ctx context.Context, slot time.Duration) ([]report.Sample, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(ends[0])
	echoed := make(chan error, 1)
	go func() { echoed <- onCore(testbed.ServerCPU, func() error { return echo(ends[1]) }) }()
	var delays []float64
	failed := onCore(testbed.LoadCPU, func() error {
		datagram := make([]byte, echoOctets)
		for began := time.Now(); time.Since(began) < slot && ctx.Err() == nil; {
			sent := time.Now()
			if err := exchange(ends[0], datagram); err != nil {
				return err
			}
			delays = append(delays, float64(time.Since(sent).Nanoseconds())/1e3)
		}
		return nil
	})
	err = errors.Join(failed, unix.Shutdown(ends[0], unix.SHUT_RDWR), <-echoed)
	slices.Sort(delays)
	return []report.Sample{report.Figure("p50 there and back", "µs", report.Percentile(delays, 0.5))}, errors.Join(err, ctx.Err())
}

// echoOctets are those of an add with one locator.
const echoOctets = 100

// exchange sends a datagram and waits for its answer.
func exchange(fd int, datagram []byte) error {
	_, err := uninterrupted(func() (int, error) { return unix.SendmsgN(fd, datagram, nil, nil, unix.MSG_NOSIGNAL) })
	if err != nil {
		return err
	}
	_, err = uninterrupted(func() (int, error) { return unix.Read(fd, datagram) })
	return err
}

// echo answers until the other end is shut down.
func echo(fd int) error {
	defer unix.Close(fd)
	datagram := make([]byte, echoOctets)
	for {
		n, err := uninterrupted(func() (int, error) { return unix.Read(fd, datagram) })
		if err != nil || n == 0 {
			return err
		}
		if _, err := uninterrupted(func() (int, error) { return unix.SendmsgN(fd, datagram[:n], nil, nil, unix.MSG_NOSIGNAL) }); err != nil {
			return err
		}
	}
}

// onCore runs f on a thread that has a core to stay on.
func onCore(cpu int, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, one unix.CPUSet
	one.Set(cpu)
	if err := errors.Join(unix.SchedGetaffinity(0, &before), unix.SchedSetaffinity(0, &one)); err != nil {
		return err
	}
	return errors.Join(f(), unix.SchedSetaffinity(0, &before))
}
