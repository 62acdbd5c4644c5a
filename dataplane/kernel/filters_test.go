// SPDX-License-Identifier: Apache-2.0

// Filters of clsact, which no pin keeps: found again after a restart, gone when they
// are not wanted, those of others untouched. The tests need root.

package kernel

import (
	"context"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
)

// clsactAt counts the filters at an interface and says whether it has the discipline.
func (r *router) clsactAt(t *testing.T, name string) (count int, discipline bool) {
	t.Helper()
	link, err := r.ns.Netlink().LinkByName(name)
	must(t, err)
	for _, parent := range []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS} {
		present, err := r.ns.Netlink().FilterList(link, parent)
		must(t, err)
		count += len(present)
	}
	disciplines, err := r.ns.Netlink().QdiscList(link)
	must(t, err)
	for _, d := range disciplines {
		discipline = discipline || d.Type() == "clsact"
	}
	return count, discipline
}

func (r *router) expectClsact(t *testing.T, name string, want int, discipline bool) {
	t.Helper()
	if count, present := r.clsactAt(t, name); count != want || present != discipline {
		t.Errorf("%s has %d filters, clsact %t; want %d, %t", name, count, present, want, discipline)
	}
}

// clsactAt is the clsact discipline of an interface.
func clsactAt(link netlink.Link) *netlink.Clsact {
	return &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}}
}

// foreignFilter adds another owner's filter at our priority.
func (r *router) foreignFilter(t *testing.T, name string) {
	t.Helper()
	link, err := r.ns.Netlink().LinkByName(name)
	must(t, err)
	present, err := r.ns.Netlink().FilterList(link, netlink.HANDLE_MIN_INGRESS)
	must(t, err)
	must(t, r.ns.Netlink().FilterAdd(&netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: link.Attrs().Index, Parent: netlink.HANDLE_MIN_INGRESS,
			Handle: 1, Protocol: unix.ETH_P_ALL, Priority: present[0].Attrs().Priority,
		},
		Fd: r.program(t, abi.ProgramSiteIngress).FD(), Name: "loci/other", DirectAction: true,
	}))
}

// TestFiltersAfterRestart starts an engine again after an interface got another name,
// with a configuration that has no site any more.
func TestFiltersAfterRestart(t *testing.T) {
	t.Parallel()
	a := newLinks(t).open(t, 0, Options{Attach: AttachClsact})
	a.expectClsact(t, "site0", 1, true)
	a.expectClsact(t, "core0", 2, true)
	a.foreignFilter(t, "core0")
	must(t, a.Close())

	site, err := a.ns.Netlink().LinkByName("site0")
	must(t, err)
	must(t, a.ns.Netlink().LinkSetDown(site))
	must(t, a.ns.Netlink().LinkSetName(site, "lan0"))
	must(t, a.ns.Netlink().LinkSetUp(site))
	a.open(t, Options{Attach: AttachClsact})
	settings := siteOperations(0)[0].(dataplane.SetSettings).Settings
	settings.Interfaces = settings.Interfaces[1:]
	a.apply(t, dataplane.SetSettings{Settings: settings})
	a.expectClsact(t, "lan0", 0, false)
	a.expectClsact(t, "core0", 3, true)

	must(t, a.Detach(context.Background()))
	a.expectClsact(t, "core0", 1, true)
}

// TestFiltersComeBack removes the discipline under the filters: they are back with the next message about the
// interface.
func TestFiltersComeBack(t *testing.T) {
	t.Parallel()
	a := newLinks(t).open(t, 0, Options{Attach: AttachClsact})
	core, err := a.ns.Netlink().LinkByName("core0")
	must(t, err)
	a.changing.Lock() // so that the engine acts on no message in between
	must(t, a.ns.Netlink().QdiscDel(clsactAt(core)))
	a.expectClsact(t, "core0", 0, false)
	a.changing.Unlock()
	must(t, a.ns.Netlink().LinkSetMTU(core, core.Attrs().MTU-100))
	eventually(t, "the filters are back", func() bool {
		count, discipline := a.clsactAt(t, "core0")
		return count == 2 && discipline
	})
	must(t, a.Detach(context.Background()))
	a.expectClsact(t, "core0", 0, false)
}

// TestForeignDisciplineStays has a clsact discipline that was there before.
func TestForeignDisciplineStays(t *testing.T) {
	t.Parallel()
	n := newLinks(t)
	a := n.routers[0]
	core, err := a.ns.Netlink().LinkByName("core0")
	must(t, err)
	must(t, a.ns.Netlink().QdiscAdd(clsactAt(core)))
	a.open(t, Options{Attach: AttachClsact})
	a.apply(t, siteOperations(0)...)
	must(t, a.Detach(context.Background()))
	a.expectClsact(t, "core0", 0, true)
	a.expectClsact(t, "site0", 0, false)
}
