// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/pins"
	"loci/internal/testnet"
)

// TestPreparedFirstLevelIsGivenUp has a first level be made that no root asks for before another table is in force.
func TestPreparedFirstLevelIsGivenUp(t *testing.T) {
	t.Parallel()
	pins, err := pins.Open(pins.DefaultDirectory, strings.ReplaceAll(testnet.ForTest(t).Name(), ".", "_"))
	must(t, err)
	t.Cleanup(func() { must(t, pins.Remove()) })
	s, _ := beginCounted(t, pins)
	s.FIB.PrepareFirstLevel()
	p := s.FIB.firstLevels.prepared
	if <-p.made; p.err != nil {
		t.Fatal(p.err)
	}
	_, err = s.FIB.NewTable(1 << 10)
	must(t, err)
	must(t, s.FIB.SwitchTable(nil))
	var id uint32
	if err := s.Map(abi.MapFirstLevel4).Lookup(p.number, &id); !errors.Is(err, ebpf.ErrKeyNotExist) || s.FIB.firstLevels.prepared != nil {
		t.Errorf("the first level is still there: %v", err)
	}
	must(t, s.Close())
}
