// SPDX-License-Identifier: Apache-2.0

// This file removes an instance whose process is gone, whatever version of Loci left
// it: by names alone, without a look into any map. It never touches an instance that
// a process uses.

package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"

	"loci/dataplane/kernel/attach"
	"loci/dataplane/kernel/netspace"
	"loci/dataplane/kernel/pins"
	"loci/dataplane/kernel/segmenter"
	"loci/dataplane/kernel/tap"
)

// Remove ends the forwarding of an instance in the calling thread's network namespace
// and removes its programs, pins and TAP, also those of another layout (ErrABI). Of
// the options, Instance, PinDirectory and TAP count. It is no error when nothing is
// there. ErrBusy means that a process uses the instance or the TAP; then nothing is
// removed.
func Remove(options Options) error {
	o := withDefaults(options)
	s, err := netspace.Current()
	if err != nil {
		return err
	}
	directory, err := openPinsIfAny(o.PinDirectory, o.Instance)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	err = removeTAP(s, o.TAP)
	if errors.Is(err, pins.ErrBusy) {
		return errors.Join(err, directory.Close(), s.Close())
	}
	return errors.Join(err, segmenter.Remove(s, o.TAP), attach.RemoveFilters(s, directory, o.Instance),
		directory.Remove(), s.Close())
}

// openPinsIfAny locks the directory of an instance. Without one there is nothing to
// lock, and none is made.
func openPinsIfAny(parent, instance string) (*pins.Directory, error) {
	path := filepath.Join(parent, instance)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return &pins.Directory{Path: path}, nil
	}
	return pins.Open(parent, instance)
}

// removeTAP removes a TAP that no process uses, if there is one.
func removeTAP(s *netspace.Space, name string) error {
	link, err := s.Netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("TAP %s: %w", name, err)
	}
	if _, ok := link.(*netlink.Tuntap); !ok {
		return fmt.Errorf("interface %s is not a TAP: it stays", name)
	}
	// Only one process can open the TAP. That of another version may not open in our mode.
	if err := s.Do(func() error { return tryTUN(name) }); errors.Is(err, pins.ErrBusy) {
		return err
	}
	if err := s.Netlink.LinkDel(link); err != nil {
		return fmt.Errorf("removing TAP %s: %w", name, err)
	}
	return nil
}

func tryTUN(name string) error {
	file, err := tap.OpenFile(name, tap.VnetOctets)
	if err != nil {
		return err
	}
	return file.Close()
}
