// SPDX-License-Identifier: Apache-2.0

// Interfaces are followed whatever becomes of the kernel's messages about them. The tests need root.

package kernel

import (
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"loci/dataplane"
)

// knowsInterfaces reports whether the engine has its interfaces beside the TAP.
func (r *router) knowsInterfaces() bool {
	r.interfaces.mu.Lock()
	defer r.interfaces.mu.Unlock()
	return len(r.interfaces.known) == 3
}

// forgetInterfaces has the engine not know what messages would have told.
func (r *router) forgetInterfaces() {
	r.interfaces.mu.Lock()
	defer r.interfaces.mu.Unlock()
	r.interfaces.known = map[uint32]attached{}
}

// TestInterfacesAreFollowed loses what happened before messages came, has messages come without end, and an interface that cannot be used at first.
func TestInterfacesAreFollowed(t *testing.T) {
	t.Parallel()
	a := newLinks(t).open(t, 0, Options{})
	site, err := a.ns.Netlink().LinkByName("site0")
	must(t, err)
	a.forgetInterfaces()
	updates := make(chan netlink.LinkUpdate)
	a.running.Go(func() {
		(&follower{interfaces: a.interfaces, stop: a.stop, amiss: (tapKeeper{a.Engine}).isTAPAmiss, resync: a.resync}).followLinks(updates, true)
	})
	eventually(t, "what happened before is seen", a.knowsInterfaces)

	a.forgetInterfaces()
	for deadline := time.Now().Add(patience); !a.knowsInterfaces(); time.Sleep(settleTime / 10) {
		updates <- netlink.LinkUpdate{Link: site}
		if time.Now().After(deadline) {
			t.Fatal("messages without end put off what they are about")
		}
	}

	must(t, a.ns.Do(func() error {
		return netlink.LinkAdd(&netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: "tun0"}, Mode: netlink.TUNTAP_MODE_TUN})
	}))
	tunnel, err := a.ns.Netlink().LinkByName("tun0")
	must(t, err)
	right := a.Settings().Interfaces
	a.setInterfaces([]dataplane.Interface{{Name: "tun0", Side: dataplane.SideSite, VLAN: 1}}) // no Ethernet
	a.forgetInterfaces()
	updates <- netlink.LinkUpdate{Link: tunnel}
	eventually(t, "the interface is refused", a.isUnusable)
	a.setInterfaces(right)
	eventually(t, "it is tried again", a.knowsInterfaces)
}

func (r *router) isUnusable() bool {
	r.changing.Lock()
	defer r.changing.Unlock()
	return r.unusable != ""
}

func (r *router) setInterfaces(interfaces []dataplane.Interface) {
	r.changing.Lock()
	defer r.changing.Unlock()
	r.Engine.mu.Lock()
	defer r.Engine.mu.Unlock()
	r.settings.Interfaces = interfaces
	r.interfaces.use(interfaces, r.tap.Index, r.tap.Mac)
}
