// SPDX-License-Identifier: Apache-2.0

// This file keeps the TAP as it has to be while the engine lives: one that was deleted, moved to another network
// namespace, renamed or set down. It reads and writes no frame.

package tap

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/dataplane/kernel/netspace"
)

// KeeperParts are what a keeper is made of.
type KeeperParts struct {
	Log    *slog.Logger
	Space  *netspace.Space
	Failed func() // counts each time that the TAP was not as it has to be
	Remade func() // called on a goroutine of its own after routes by the TAP were lost
}

// A Keeper keeps the TAP of an instance. One caller at a time mends it or makes it anew; anyone may ask for it.
type Keeper struct {
	KeeperParts
	current atomic.Pointer[TAP] // never changed, only replaced

	amiss bool // the TAP was set down or renamed, which was logged
}

// NewKeeper keeps a TAP that is open.
func NewKeeper(open *TAP, parts KeeperParts) *Keeper {
	k := &Keeper{KeeperParts: parts}
	k.current.Store(open)
	return k
}

// TAP is the TAP.
func (k *Keeper) TAP() *TAP { return k.current.Load() }

// IsAmiss reports whether news of the TAP are about something that Keep mends.
func (k *Keeper) IsAmiss(update netlink.LinkUpdate) bool {
	attrs, current := update.Link.Attrs(), k.TAP()
	return uint32(attrs.Index) == current.Index &&
		(update.Header.Type == unix.RTM_DELLINK || attrs.Flags&net.FlagUp == 0 || attrs.Name != current.Name)
}

// Keep makes the TAP what it has to be.
func (k *Keeper) Keep() error {
	current := k.TAP()
	link, err := k.Space.Netlink.LinkByIndex(int(current.Index))
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		giveUp(current)
		return nil
	}
	if err != nil {
		return fmt.Errorf("TAP: %w", err)
	}
	attrs := link.Attrs()
	if attrs.Flags&net.FlagUp != 0 && attrs.Name == current.Name {
		k.amiss = false
		return nil
	}
	k.tellAmiss()
	var renamed error
	if attrs.Name != current.Name {
		renamed = k.rename(link)
	}
	if err := k.Space.Netlink.LinkSetUp(link); err != nil {
		return errors.Join(renamed, fmt.Errorf("TAP %s: setting it up: %w", current.Name, err))
	}
	if renamed != nil {
		return renamed
	}
	k.amiss = false
	go k.Remade()
	return nil
}

// tellAmiss counts each time, and says it once while it is tried again and again to mend it.
func (k *Keeper) tellAmiss() {
	k.Failed()
	if !k.amiss {
		k.Log.Warn("the LISP interface was set down or renamed: what should have waited there is lost "+
			"until it is as it was", "interface", k.TAP().Name)
	}
	k.amiss = true
}

// rename gives the TAP its name back, by which the next process finds it. For that it is set down, and its routes
// are gone: not while another interface has the name.
func (k *Keeper) rename(link netlink.Link) error {
	name := k.TAP().Name
	if _, err := k.Space.Netlink.LinkByName(name); err == nil {
		return fmt.Errorf("TAP %s: another interface has its name", name)
	}
	if err := k.Space.Netlink.LinkSetDown(link); err != nil {
		return fmt.Errorf("TAP %s: setting it down: %w", name, err)
	}
	if err := k.Space.Netlink.LinkSetName(link, name); err != nil {
		return fmt.Errorf("TAP %s: giving it its name back: %w", name, err)
	}
	return nil
}

// giveUp has the pending-packet queue make another TAP where this one is no longer in our namespace. The queue
// notices by itself that its TAP was deleted; one that was moved is removed here.
func giveUp(t *TAP) {
	_ = t.Remove()
	_ = t.File.Close()
}

// Reopen makes the TAP anew.
func (k *Keeper) Reopen() (*TAP, error) {
	current := k.TAP()
	_ = current.File.Close() // whatever is wrong with it; fails the second time
	fresh, err := Open(k.Space, current.Name)
	if err != nil {
		return nil, err
	}
	k.current.Store(fresh)
	return fresh, nil
}

// SetMTU makes packets of so many octets fit that this host sends from its EIDs.
func (k *Keeper) SetMTU(octets int) error {
	err := k.TAP().SetMTU(k.Space, octets)
	if errors.As(err, &netlink.LinkNotFoundError{}) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO) {
		k.Log.Debug("the TAP was deleted; it gets its MTU when it is made anew", "interface", k.TAP().Name)
		return nil
	}
	return err
}
