// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"

	"loci/dataplane/kernel/abi"
)

// TestPreparedBlockIsGivenUp has a block made ready that no root ever needs: it goes with the next table.
func TestPreparedBlockIsGivenUp(t *testing.T) {
	t.Parallel()
	a := newLinks(t).open(t, 0, Options{})
	a.mu.Lock()
	defer a.mu.Unlock()
	a.store.PrepareFirstLevel()
	p := a.store.nextBlock
	if <-p.made; p.err != nil {
		t.Fatal(p.err)
	}
	_, err := a.store.NewTable(1 << 16)
	must(t, err)
	must(t, a.store.SwitchTable(nil))
	var id uint32
	if err := a.store.maps[abi.MapWide].Lookup(p.block, &id); !errors.Is(err, ebpf.ErrKeyNotExist) || a.store.nextBlock != nil {
		t.Errorf("the block is still there: %v", err)
	}
}
