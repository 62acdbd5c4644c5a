// SPDX-License-Identifier: Apache-2.0

// This file reads what was dropped, and why, while somebody wants to know (bpf/abi.h, capture of dropped packets). It slows
// down dropped packets alone, and ends with its process: what a killed one left switched on, the next engine or capture
// switches off.

package observe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/bootclock"
	"loci/dataplane/kernel/pins"
	"loci/dataplane/kernel/store"
	"loci/dataplane/kernel/tap"
	"loci/forward"
)

// DroppedPacket is the beginning of a packet that was dropped.
type DroppedPacket struct {
	At      time.Time
	Ifindex uint32 // where it came in, or was to leave; 0 when it is not known
	Reason  forward.DropReason
	Octets  int    // of the whole frame
	Link    int    // octets of the link layer header in Frame
	Frame   []byte // valid until the next one is read
}

// Capture reads what an instance drops. It is for one goroutine.
type Capture struct {
	store *store.Store
	lock  *os.File
	ring  *ringbuf.Reader
	clock bootclock.Clock
	tap   uint32 // its ifindex
}

const (
	// queuePause is how often the pending-packet queue's drops are looked for.
	queuePause = 50 * time.Millisecond
)

// OpenCapture finds an instance by its pins, and begins. The errors are
// ErrNothingInForce, store.ErrABI, pins.ErrBusy when another process captures, and those of the
// system.
func OpenCapture(pinDirectory, instance string) (*Capture, error) {
	directory := pins.MapsOf(pinDirectory, instance)
	if _, err := os.Stat(directory); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: there is no %s", ErrNothingInForce, directory)
	}
	c := &Capture{}
	if err := c.open(directory); err != nil {
		return nil, errors.Join(fmt.Errorf("capture: %w", err), c.Close())
	}
	return c, nil
}

func (c *Capture) open(directory string) (err error) {
	if c.lock, err = lockCapture(directory); err != nil {
		return err
	}
	if c.store, err = store.OpenPinned(directory); err != nil {
		return err
	}
	var settings abi.Settings
	if err := c.store.Map(abi.MapSettings).Lookup(uint32(0), &settings); err != nil {
		return fmt.Errorf("reading the settings: %w", err)
	}
	c.tap = settings.TapIfindex
	if c.ring, err = ringbuf.NewReader(c.store.Map(abi.MapSamples)); err != nil {
		return fmt.Errorf("ring buffer: %w", err)
	}
	var offset uint64
	c.clock = bootclock.Clock{Offset: &offset, Sample: bootclock.Sample}
	if err := errors.Join(c.clock.Adjust(), c.discard()); err != nil {
		return err
	}
	return setWatch(c.store, abi.WatchDrops)
}

// lockCapture makes sure that one process captures.
func lockCapture(directory string) (*os.File, error) {
	lock, err := os.Open(directory)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = pins.ErrBusy
		}
		return nil, err
	}
	return lock, nil
}

// setWatch tells programs and the pending-packet queue what the capture wants to know.
func setWatch(s *store.Store, flags uint64) error {
	if err := s.Map(abi.MapWatch).Put(uint32(0), abi.Watch{Flags: flags}); err != nil {
		return fmt.Errorf("switching the capture of drops: %w", err)
	}
	return nil
}

// EndAbandonedWatch switches off what a killed capture left on.
func EndAbandonedWatch(s *store.Store, directory string) error {
	lock, err := lockCapture(directory)
	if errors.Is(err, pins.ErrBusy) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	return setWatch(s, 0)
}

// discard takes out what was dropped before.
func (c *Capture) discard() error {
	c.ring.SetDeadline(time.Unix(1, 0))
	var record ringbuf.Record
	for {
		if err := c.ring.ReadInto(&record); err != nil {
			break
		}
	}
	for {
		var sample abi.Sample
		if err := c.store.Map(abi.MapPendingSamples).LookupAndDelete(nil, &sample); err != nil {
			return ignoreEmpty(err)
		}
	}
}

// ignoreEmpty takes an empty queue for no error.
func ignoreEmpty(err error) error {
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil
	}
	return fmt.Errorf("read the drops of pending packets: %w", err)
}

// Read hands each dropped packet to `each`, until that returns an error or the context
// ends, which is none.
func (c *Capture) Read(ctx context.Context, each func(DroppedPacket) error) error {
	var record ringbuf.Record
	var looked time.Time // at the pending-packet queue, however much the programs drop
	for ctx.Err() == nil {
		now := time.Now()
		if now.Sub(looked) >= queuePause {
			looked = now
			if err := c.readQueue(each); err != nil {
				return err
			}
		}
		c.ring.SetDeadline(now.Add(queuePause))
		err := c.ring.ReadInto(&record)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			err = nil
		case err == nil && len(record.RawSample) < int(unsafe.Sizeof(abi.Sample{})):
			err = fmt.Errorf("a dropped packet of %d octets", len(record.RawSample))
		case err == nil:
			err = each(c.packet((*abi.Sample)(unsafe.Pointer(&record.RawSample[0]))))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readQueue takes what the pending-packet queue dropped, as much as the map of samples holds.
func (c *Capture) readQueue(each func(DroppedPacket) error) error {
	for range c.store.Map(abi.MapPendingSamples).MaxEntries() {
		var sample abi.Sample
		if err := c.store.Map(abi.MapPendingSamples).LookupAndDelete(nil, &sample); err != nil {
			return ignoreEmpty(err)
		}
		if err := each(c.packet(&sample)); err != nil {
			return err
		}
	}
	return nil
}

func (c *Capture) packet(s *abi.Sample) DroppedPacket {
	return DroppedPacket{
		At: c.clock.FromBoot(s.TimeNs), Ifindex: c.origin(s), Reason: forward.DropReason(s.Reason), Octets: int(s.Length),
		Link: int(s.L2Length), Frame: s.Octets[:min(int(s.Captured), len(s.Octets))],
	}
}

// origin is where the packet came in. When it was dropped on its way back from the
// pending-packet queue, the queue's header tells.
func (c *Capture) origin(s *abi.Sample) uint32 {
	if s.Ifindex == c.tap && s.Captured >= etherOctets && s.Octets[6] == abi.TAPReleased {
		return binary.BigEndian.Uint32(s.Octets[8:])
	}
	return s.Ifindex
}

// Lost returns how many packets found no room since the capture began.
func (c *Capture) Lost() (uint64, error) {
	var watch abi.Watch
	if err := c.store.Map(abi.MapWatch).Lookup(uint32(0), &watch); err != nil {
		return 0, fmt.Errorf("reading what was lost: %w", err)
	}
	return watch.Lost, nil
}

// RecordDrop puts the beginning of a frame of the TAP that user space dropped into the queue for
// captures, in the place of the oldest when that is full. It does nothing while no capture runs.
func RecordDrop(s *store.Store, clock bootclock.Clock, f tap.Frame, reason forward.DropReason) {
	var watch abi.Watch
	err := s.Map(abi.MapWatch).Lookup(uint32(0), &watch)
	if err != nil || watch.Flags&abi.WatchDrops == 0 || len(f) < tap.VnetOctets+tap.EthernetOctets {
		return
	}
	whole := f[tap.VnetOctets:]
	sample := abi.Sample{
		TimeNs: clock.ToBoot(time.Now()), Length: uint32(len(whole)), Reason: uint8(reason), L2Length: tap.EthernetOctets,
	}
	if f.Magic() == abi.TAPWaiting || f.Magic() == abi.TAPReleased {
		sample.Ifindex = f.Origin()
	}
	sample.Captured = uint32(copy(sample.Octets[:], whole))
	_ = s.Map(abi.MapPendingSamples).Update(nil, sample, ebpf.UpdateExist) // a sample less
}

// Close ends the capture.
func (c *Capture) Close() error {
	var errs []error
	if c.ring != nil {
		errs = append(errs, setWatch(c.store, 0), c.ring.Close())
	}
	if c.store != nil {
		errs = append(errs, c.store.Close())
	}
	if c.lock != nil {
		errs = append(errs, c.lock.Close())
	}
	return errors.Join(errs...)
}
