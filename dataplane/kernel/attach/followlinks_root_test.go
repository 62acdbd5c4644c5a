// SPDX-License-Identifier: Apache-2.0

// Interfaces are followed whatever becomes of the kernel's messages about them. The tests need root.

package attach

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"loci/dataplane"
	"loci/dataplane/kernel/kerneltest"
)

// knowsInterfaces reports whether interfaces are known beside the TAP.
func (h *host) knowsInterfaces() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.known) == 3
}

// forgetInterfaces has the host not know what messages would have reported.
func (h *host) forgetInterfaces() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.known = map[uint32]attached{}
}

// TestInterfacesAreFollowed loses what happened before messages came, has messages come without end, and an
// interface that cannot be used at first.
func TestInterfacesAreFollowed(t *testing.T) {
	t.Parallel()
	a := newHost(t)
	site, err := a.ns.Netlink().LinkByName("site0")
	must(t, err)
	a.forgetInterfaces()
	updates, stop := make(chan netlink.LinkUpdate), make(chan struct{})
	var refused atomic.Bool
	var running sync.WaitGroup
	var changing sync.Mutex
	use := func(interfaces []dataplane.Interface) {
		changing.Lock()
		defer changing.Unlock()
		a.use(interfaces)
	}
	running.Go(func() {
		(&Follower{
			Interfaces: a.Interfaces, Stop: stop, Amiss: func(netlink.LinkUpdate) bool { return false },
			Resync: func() bool {
				changing.Lock()
				defer changing.Unlock()
				_, err := a.Sync()
				refused.Store(err != nil)
				return err == nil
			},
		}).followLinks(updates, true)
	})
	defer running.Wait()
	defer close(stop)
	kerneltest.Eventually(t, "what happened before is seen", a.knowsInterfaces)

	a.forgetInterfaces()
	for deadline := time.Now().Add(kerneltest.Patience); !a.knowsInterfaces(); time.Sleep(settleTime / 10) {
		updates <- netlink.LinkUpdate{Link: site}
		if time.Now().After(deadline) {
			t.Fatal("messages without end put off what they are about")
		}
	}

	must(t, a.ns.Do(func() error {
		attrs := netlink.LinkAttrs{Name: "tun0"}
		return netlink.LinkAdd(&netlink.Tuntap{LinkAttrs: attrs, Mode: netlink.TUNTAP_MODE_TUN})
	}))
	tunnel, err := a.ns.Netlink().LinkByName("tun0")
	must(t, err)
	use([]dataplane.Interface{{Name: "tun0", Side: dataplane.SideSite, VLAN: 1}}) // no Ethernet
	a.forgetInterfaces()
	updates <- netlink.LinkUpdate{Link: tunnel}
	kerneltest.Eventually(t, "the interface is refused", refused.Load)
	use(bothSides(dataplane.HookAuto))
	kerneltest.Eventually(t, "it is tried again", a.knowsInterfaces)
}
