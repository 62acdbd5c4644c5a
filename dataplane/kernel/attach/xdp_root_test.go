// SPDX-License-Identifier: Apache-2.0

// Where the kernel has no XDP for this router, tc does its work. The tests need root.

package attach

import (
	"errors"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"loci/dataplane"
)

// TestXDPRefused has a kernel that refuses the program, and one that does not any more.
func TestXDPRefused(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	load := h.hooks.loadXDP
	h.hooks.loadXDP = func() *ebpf.Program { h.noXDP = errors.New("refused"); return nil }
	h.use(bothSides(dataplane.HookXDP))
	h.sync(t)
	for _, state := range h.States() {
		if state.Hook != dataplane.HookTC || !strings.Contains(state.Warning, "refused") {
			t.Errorf("%+v where the kernel refuses the program", state)
		}
	}
	h.hooks.loadXDP, h.noXDP = load, nil
	h.sync(t)
	for _, state := range h.States() {
		if state.Hook != dataplane.HookXDP {
			t.Errorf("%+v where the kernel takes the program", state)
		}
	}
}
