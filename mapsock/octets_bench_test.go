// SPDX-License-Identifier: Apache-2.0

package mapsock

import "testing"

func BenchmarkAppend(b *testing.B) {
	entry := mappingTo("10.2.0.0/24", "192.0.2.2", "192.0.2.3").Entry
	var m Message
	var buffer []byte
	b.ReportAllocs()
	for b.Loop() {
		m.Reset(TypeAdd)
		m.SetMapping(&entry)
		buffer, _ = m.Append(buffer[:0])
	}
}

func BenchmarkParse(b *testing.B) {
	buffer := octetsOf(b, 1, mappingTo("10.2.0.0/24", "192.0.2.2", "192.0.2.3"))
	var m Message
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Parse(buffer); err != nil {
			b.Fatal(err)
		}
	}
}
