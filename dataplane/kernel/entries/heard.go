// SPDX-License-Identifier: Apache-2.0

// This file keeps what the programs remember of Locator-Status-Bits (bpf/nonce_lsb_version.h; RFC
// 9300 s.10) in step with the map-cache: bits are of one locator-set, and the control plane
// forgot what it did about them with it. So is our own pause when the Database changes (s.13.1).
// It never reads a packet, and changes nothing else that the programs remember.

package entries

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/lpm"
	"loci/dataplane/kernel/store"
	"loci/dataplane/kernel/tables"
	"loci/lisp"
)

// heardAnew in lisp_heard.count is what abi.h calls LISP_HEARD_ANEW; a test compares.
const heardAnew = 1

func heardKey(key lpm.Key) abi.LimitKey {
	return abi.LimitKey{
		Kind: uint32(abi.EventStatusBits), Iid: key.Instance,
		Family: key.Family, PrefixLength: key.Bits, Destination: key.Address,
	}
}

// statusBitsFrom is when an entry of the Database begins to send Locator-Status-Bits, in
// time since boot; 0 for at once. One whose RLOCs change pauses (RFC 9300 s.13.1).
func (c *contents) statusBitsFrom(key lpm.Key, locators lisp.LocatorSet) uint64 {
	index, exists := c.tables.Entries.Get(key)
	if !exists {
		return 0
	}
	record := &c.tables.Records[index]
	if c.tables.Sets.Of(record.LocatorSet).SameRLOCs(locators) {
		return record.ExpiresNs
	}
	return c.clock.ToBoot(time.Now().Add(dataplane.StatusBitsPause))
}

// hasOtherLocators reports whether there is an entry of the prefix, with another locator-set
// and bits that the control plane listens to.
func (c *contents) hasOtherLocators(with tables.Entry) bool {
	if !c.settings.Header.StatusBits {
		return false
	}
	index, exists := c.tables.Entries.Get(with.Key)
	return exists && !c.tables.Sets.Of(c.tables.Records[index].LocatorSet).Equal(with.Locators)
}

// forgetStatusBits says that a mapping has another locator-set: the next bits about it are
// reported whatever they are. With gone there is no mapping any more. A caller that gave
// the programs the new set first leaves no bits of the old one behind but those of a
// packet that is on its way just then.
func (c *contents) forgetStatusBits(key lpm.Key, gone bool) {
	if key.Kind != abi.RootMapCache || !c.settings.Header.StatusBits {
		return
	}
	m, k := c.store.Map(abi.MapHeard), heardKey(key)
	err := m.Update(k, abi.Heard{Count: heardAnew}, ebpf.UpdateExist)
	if gone {
		err = m.Delete(k)
	}
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		c.log.Error("old Locator-Status-Bits stay in force", "error", err)
	}
}

// ForgetAllStatusBits is for those who begin to listen to bits: they know none yet.
func (e *Entries) ForgetAllStatusBits() error {
	finding, deleting := store.PruneFound[abi.LimitKey, abi.Heard](e.store.Map(abi.MapHeard), func(key abi.LimitKey) bool {
		return key.Kind != uint32(abi.EventStatusBits)
	})
	if errors.Is(finding, ebpf.ErrIterationAborted) { // programs write meanwhile: what is left counts as heard
		finding = nil
	}
	if err := errors.Join(finding, deleting); err != nil {
		return fmt.Errorf("forgetting Locator-Status-Bits: %w", err)
	}
	return nil
}
