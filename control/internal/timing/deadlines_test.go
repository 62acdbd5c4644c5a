// SPDX-License-Identifier: Apache-2.0

package timing

import (
	"math/rand/v2"
	"testing"
)

func TestDeadlines(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var d Deadlines
	model := make(map[uint32]Instant)
	for now := Instant(0); now < 5000; now++ {
		id := uint32(r.IntN(200))
		switch r.IntN(4) {
		case 0:
			d.Remove(id)
			delete(model, id)
		default:
			at := now + Instant(r.IntN(300))
			d.Set(id, at)
			model[id] = at
		}
		earliest := Never
		for _, at := range model {
			earliest = min(earliest, at)
		}
		if d.Next() != earliest {
			t.Fatalf("next is %d, want %d", d.Next(), earliest)
		}
		for {
			id, ok := d.Due(now)
			if !ok {
				break
			}
			if model[id] > now {
				t.Fatalf("%d was due at %d, it is %d", id, model[id], now)
			}
			delete(model, id)
		}
		if d.Heap.Len() != len(model) {
			t.Fatalf("%d deadlines, want %d", d.Heap.Len(), len(model))
		}
	}
}
