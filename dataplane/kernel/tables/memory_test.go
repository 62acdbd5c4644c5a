// SPDX-License-Identifier: Apache-2.0

package tables

import "loci/dataplane/kernel/lpm"

// plainMemory is the memory of a forwarding table without a kernel.
type plainMemory struct{ failing error } // what every call answers that may fail

func (m *plainMemory) NewTable(cells int) ([]uint32, error) {
	return make([]uint32, cells*lpm.CellOctets/4), m.failing
}
func (m *plainMemory) PrepareTable(cells int) int { return cells }
func (m *plainMemory) PreparedCells() int         { return 0 }
func (m *plainMemory) DropTable([]uint32)         {}
func (m *plainMemory) PrepareFirstLevel()         {}
func (m *plainMemory) DropFirstLevel(uint32)      {}
func (m *plainMemory) DropSecondLevels([]uint32)  {}
func (m *plainMemory) NewFirstLevel(uint8) (uint32, []uint32, error) {
	return 1, make([]uint32, 1<<20), m.failing
}
func (m *plainMemory) NewSecondLevel(write func([]lpm.Entry)) (uint32, []lpm.Entry, error) {
	elements := make([]lpm.Entry, lpm.SecondLevelEntries)
	write(elements)
	return 1, elements, m.failing
}
func (m *plainMemory) SwitchTable(map[lpm.RootKey]lpm.Begin) error { return m.failing }
func (m *plainMemory) ExtendTable(map[lpm.RootKey]lpm.Begin) error { return m.failing }
func (m *plainMemory) PutRoot(lpm.RootKey, lpm.Begin) error        { return m.failing }
func (m *plainMemory) DeleteRoot(lpm.RootKey) error                { return m.failing }
