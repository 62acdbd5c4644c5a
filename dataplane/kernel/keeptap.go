// SPDX-License-Identifier: Apache-2.0

// This file keeps the TAP as it has to be while the engine lives: one that somebody deleted, moved to another network
// namespace, renamed or set down. It reads and writes no frame.

package kernel

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/dataplane/kernel/store"
)

// tapKeeper mends the TAP.
type tapKeeper struct{ *Engine }

// isTAPAmiss reports whether news of the TAP are about something that keepTAP mends.
func (e tapKeeper) isTAPAmiss(update netlink.LinkUpdate) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	attrs := update.Link.Attrs()
	return uint32(attrs.Index) == e.tap.Index &&
		(update.Header.Type == unix.RTM_DELLINK || attrs.Flags&net.FlagUp == 0 || attrs.Name != e.tap.Name)
}

// keepTAP makes the TAP what it has to be. The caller holds changing.
func (e tapKeeper) keepTAP() error {
	link, err := e.space.Netlink.LinkByIndex(int(e.tap.Index))
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		e.giveUpTAP()
		return nil
	}
	if err != nil {
		return fmt.Errorf("TAP: %w", err)
	}
	attrs := link.Attrs()
	if attrs.Flags&net.FlagUp != 0 && attrs.Name == e.tap.Name {
		e.tapAmiss = false
		return nil
	}
	e.tellTAPAmiss()
	var renamed error
	if attrs.Name != e.tap.Name {
		renamed = e.renameTAP(link)
	}
	if err := e.space.Netlink.LinkSetUp(link); err != nil {
		return errors.Join(renamed, fmt.Errorf("TAP %s: setting it up: %w", e.tap.Name, err))
	}
	if renamed != nil {
		return renamed
	}
	e.tapAmiss = false
	go e.tapRemade()
	return nil
}

// tellTAPAmiss counts each time, and says it once while it is tried again and again to mend it.
func (e tapKeeper) tellTAPAmiss() {
	atomic.AddUint64(&e.store.Words[store.WordTAPErrors], 1)
	if !e.tapAmiss {
		e.log.Warn("the LISP interface was set down or renamed: what should have waited there is lost until it is as it was", "interface", e.tap.Name)
	}
	e.tapAmiss = true
}

// renameTAP gives the TAP its name back, by which the next process finds it. For that it is set down, and its routes are gone: not
// while another interface has the name.
func (e tapKeeper) renameTAP(link netlink.Link) error {
	if _, err := e.space.Netlink.LinkByName(e.tap.Name); err == nil {
		return fmt.Errorf("TAP %s: another interface has its name", e.tap.Name)
	}
	if err := e.space.Netlink.LinkSetDown(link); err != nil {
		return fmt.Errorf("TAP %s: setting it down: %w", e.tap.Name, err)
	}
	if err := e.space.Netlink.LinkSetName(link, e.tap.Name); err != nil {
		return fmt.Errorf("TAP %s: giving it its name back: %w", e.tap.Name, err)
	}
	return nil
}

// giveUpTAP has the pending-packet queue make another TAP where this one is no longer in our namespace. The queue notices by itself that its
// TAP was deleted; one that was moved is removed here.
func (e tapKeeper) giveUpTAP() {
	_ = e.tap.Remove()
	_ = e.tap.File.Close()
}
