// SPDX-License-Identifier: Apache-2.0

// What Remove leaves of an instance: nothing, even if its tables are not understood.
// The tests need root.

package kernel

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/features"
	"loci/dataplane/kernel/pins"
	"loci/dataplane/kernel/store"
	"loci/dataplane/kernel/tap"
)

func (r *router) remove(t *testing.T, options Options) (err error) {
	t.Helper()
	options.Instance = r.instance
	return r.ns.Do(func() error { return Remove(options) })
}

// becomeForeign makes what the engine left look like that of another version.
func (r *router) becomeForeign(t *testing.T) {
	t.Helper()
	must(t, r.store.PutSettings(abi.Settings{AbiVersion: abi.Version + 1}))
	directory := filepath.Join(pins.DefaultDirectory, r.instance)
	clone, err := r.store.Map(store.MapSavedStates).Clone() // the original is pinned elsewhere
	must(t, err)
	defer clone.Close()
	must(t, clone.Unpin())
	must(t, clone.Pin(filepath.Join(directory, "maps", "of_the_future")))
	must(t, os.Mkdir(filepath.Join(directory, "unheard_of"), 0o700))
}

func TestRemoveWhatIsNotUnderstood(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]AttachMode{"tcx": AttachAuto, "clsact": AttachClsact} {
		t.Run(name, func(t *testing.T) {
			n := newLinks(t)
			a := n.open(t, 0, Options{Attach: mode})
			n.open(t, 1, Options{})
			if err := a.remove(t, Options{}); !errors.Is(err, pins.ErrBusy) {
				t.Fatalf("removing an instance in use: %v, want ErrBusy", err)
			}
			n.mapBoth(t, rloc4)
			n.expectPings(t, n.hosts[0], siteAddress4(0, 10), siteAddress4(1, 10))
			a.becomeForeign(t)
			must(t, a.Close())
			err := a.ns.Do(func() error {
				_, err := Open(Options{Instance: a.instance, Attach: mode, Logger: testLogger()})
				return err
			})
			if !errors.Is(err, store.ErrNewer) {
				t.Fatalf("tables of another layout: %v, want ErrNewer", err)
			}
			must(t, a.remove(t, Options{}))
			a.expectNothing(t)
			must(t, a.remove(t, Options{})) // and again: there is nothing to do
			a.open(t, Options{Attach: mode})
			a.apply(t, siteOperations(0)...)
		})
	}
}

// expectNothing looks for pins, programs and the TAP.
func (r *router) expectNothing(t *testing.T) {
	t.Helper()
	if _, err := r.ns.Netlink().LinkByName(tap.DefaultName); err == nil {
		t.Error("the TAP is still there")
	}
	if _, err := os.Stat(filepath.Join(pins.DefaultDirectory, r.instance)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("pins: %v", err)
	}
	for _, name := range []string{"site0", "core0"} {
		r.expectClsact(t, name, 0, false)
		link, err := r.ns.Netlink().LinkByName(name)
		must(t, err)
		eventually(t, "no program at "+name, func() bool { return r.programsAt(t, link.Attrs().Index) == 0 })
	}
}

// programsAt counts the tcx programs at an interface: none where the kernel has no tcx.
func (r *router) programsAt(t *testing.T, ifindex int) (count int) {
	t.Helper()
	if !features.HaveTCX() {
		return 0
	}
	must(t, r.ns.Do(func() error {
		for _, hook := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
			result, err := link.QueryPrograms(link.QueryOptions{Target: ifindex, Attach: hook})
			if err != nil {
				return err
			}
			count += len(result.Programs)
		}
		return nil
	}))
	return count
}
