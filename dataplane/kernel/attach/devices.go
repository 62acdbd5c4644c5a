// SPDX-License-Identifier: Apache-2.0

// This file keeps the interfaces that take frames where XDP programs send to them
// without a search (bpf/maps.h, devices). An interface that finds no place there is
// searched for, as all others are; nothing here can make a frame take a wrong way.

package attach

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/store"
)

// fillDevices gives places to the interfaces that take frames. A place is taken from
// an interface that is not wanted any more, and given away only when no decision has
// it and no program that found one still runs.
func (l *Interfaces) fillDevices(wanted map[uint32]attached) error {
	missing, err := l.missingDevices(wanted)
	if err != nil || len(missing) == 0 {
		return err
	}
	l.Store.Changed.All()
	time.Sleep(store.SlotRest)
	return l.Space.Do(func() error {
		for place, ifindex := range missing {
			err := l.Store.Map(abi.MapDevices).Put(place, ifindex)
			if err != nil && !errors.Is(err, unix.EINVAL) { // it is gone
				return fmt.Errorf("interface %d into %s: %w", ifindex, abi.MapDevices, err)
			}
		}
		return nil
	})
}

// missingDevices returns the interfaces that have no place and may have one, by it.
func (l *Interfaces) missingDevices(wanted map[uint32]attached) (map[uint32]uint32, error) {
	devices := l.Store.Map(abi.MapDevices)
	missing := map[uint32]uint32{}
	for ifindex, a := range wanted {
		if isVLAN(ifindex) || a.record.Flags&abi.InterfaceTakesFrames == 0 {
			continue
		}
		place := ifindex % devices.MaxEntries()
		var holder uint32
		err := devices.Lookup(place, &holder)
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil, fmt.Errorf("reading %s: %w", abi.MapDevices, err)
		}
		if _, used := wanted[holder]; err != nil || !used {
			missing[place] = ifindex
		}
	}
	return missing, nil
}
