// SPDX-License-Identifier: Apache-2.0

package simplenat

// Hosts whose ports change often: their packets are lost each time.

import (
	"slices"

	"loci/control/internal/status"
)

// maxOften bounds the hosts that are listed. Where one of them ends, another is listed at its next change.
const maxOften = 64

// noteChange is for a host that has another port. Hosts that no mapping names are left out: an attacker can make those
// up.
func (r *RTR) noteChange(b *known) {
	b.changes.Note(r.h.Now)
	if _, is := b.changes.OftenSince(r.h.Now); !is || !r.IsUsed(b.Host) {
		return
	}
	if len(r.often) >= maxOften {
		r.ChangingOften()
	}
	if len(r.often) < maxOften {
		r.often[b.Host] = struct{}{}
	}
}

// ChangingOften lists the hosts whose ports change often, in the order of names and addresses.
func (r *RTR) ChangingOften() (list []status.NATHost) {
	for host := range r.often {
		id, is := r.byHost[host]
		if is {
			_, is = r.hosts.At(id).changes.OftenSince(r.h.Now)
		}
		if !is || !r.IsUsed(host) {
			delete(r.often, host)
			continue
		}
		list = append(list, r.statusOf(id))
	}
	slices.SortFunc(list, status.NATHost.Compare)
	return list
}
