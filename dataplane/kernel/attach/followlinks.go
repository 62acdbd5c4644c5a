// SPDX-License-Identifier: Apache-2.0

// This file follows changes of interfaces.

package attach

import (
	"errors"
	"loci/dataplane/kernel/features"
	"loci/internal/genetlink"
	"slices"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

const (
	// settleTime is how long changes of interfaces are gathered, retryTime how long
	// to wait when the kernel does not report them.
	settleTime = 50 * time.Millisecond
	retryTime  = time.Second
	// featurePoll is how often the reader of changes looks whether the engine has ended.
	featurePoll = 200 * time.Millisecond
)

// Follower is who follows interfaces.
type Follower struct {
	Interfaces *Interfaces
	Stop       <-chan struct{}
	Amiss      func(netlink.LinkUpdate) bool // whether an update is about a TAP that has to be mended
	Resync     func() bool                   // makes interfaces what they have to be; false: to be tried again
}

// WatchLinks follows changes of interfaces until the engine ends.
func (l *Follower) WatchLinks() {
	for {
		updates := make(chan netlink.LinkUpdate, 64)
		done := make(chan struct{})
		err := netlink.LinkSubscribeWithOptions(updates, done, netlink.LinkSubscribeOptions{
			Namespace: &l.Interfaces.Space.Ns,
			ErrorCallback: func(err error) {
				l.Interfaces.Log.Debug("messages about interfaces were lost", "error", err)
			},
		})
		if err != nil {
			l.Interfaces.Log.Warn("the kernel does not tell of changed interfaces", "error", err)
		}
		ended := l.followLinks(updates, err == nil)
		close(done)
		if err == nil {
			for range updates { // the sender may still wait for a reader
			}
		}
		if ended {
			return
		}
	}
}

// followLinks syncs interfaces after each burst of updates, and once at first for what happened before the
// subscription. It returns true when the engine ends.
func (l *Follower) followLinks(updates <-chan netlink.LinkUpdate, subscribed bool) bool {
	retry := time.NewTimer(retryTime)
	defer retry.Stop()
	if subscribed {
		retry.Stop()
	}
	due := time.After(settleTime)
	for {
		select {
		case <-l.Stop:
			return true
		case <-retry.C:
			return false
		case update, ok := <-updates:
			if !ok {
				updates = nil
				retry.Reset(retryTime)
			}
			// Later updates put off nothing: they may never end.
			if due == nil && (!ok || l.isNews(update)) {
				due = time.After(settleTime)
			}
		case <-due:
			due = nil
			if !l.Resync() {
				due = time.After(retryTime)
			}
		}
	}
}

// isNews reports whether an update is of an interface of ours, or of the TAP.
func (l *Follower) isNews(update netlink.LinkUpdate) bool {
	if update.Link == nil {
		return false
	}
	if l.Amiss(update) {
		return true
	}
	return l.Interfaces.concerns(update.Link)
}

// WatchFeatures follows what interfaces can do with frames until the engine ends: a
// veth takes them only while its other end is ready for them.
func (l *Follower) WatchFeatures() {
	socket, err := features.Subscribe(l.Interfaces.Space)
	if err != nil {
		l.Interfaces.Log.Warn("the kernel does not tell of changed XDP features", "error", err)
	}
	if socket == nil {
		return
	}
	defer socket.Close()
	timeout := unix.NsecToTimeval(featurePoll.Nanoseconds())
	_ = socket.SetReceiveTimeout(&timeout)
	for {
		messages, _, err := socket.Receive()
		select {
		case <-l.Stop:
			return
		default:
		}
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ENOBUFS):
			l.Resync() // messages are lost
		case err != nil:
			l.Interfaces.Log.Warn("the kernel does not tell of changed XDP features any more", "error", err)
			return
		case slices.ContainsFunc(messages, l.concernsFeatures):
			l.Resync()
		}
	}
}

// concernsFeatures reports whether a message is about an interface of ours.
func (l *Follower) concernsFeatures(m syscall.NetlinkMessage) bool {
	ours := false
	_ = genetlink.EachAttribute(m.Data, genetlink.HeaderOctets, func(kind uint16, value []byte) {
		if kind != features.NetdevIfindex || len(value) != 4 {
			return
		}
		_, ours = l.Interfaces.get(nl.NativeEndian().Uint32(value))
	})
	return ours
}
