// SPDX-License-Identifier: Apache-2.0

package mapserver

// The sites of a Map-Server: those of the configuration, with what each has used of its
// limits. Another configuration of a hundred thousand sites is taken over in one event-loop iteration, because a site
// meets its new configuration when it is asked for next. Those that are gone are forgotten by the
// pass over the registrations (sweep.go).

import (
	"loci/control/internal/message"
	"loci/control/internal/settings"
	"loci/control/internal/timing"
)

// siteTable holds the sites.
type siteTable struct {
	configured []settings.Site
	index      map[string]int        // of configured, by name
	states     []*siteState          // of configured, nil until asked for
	Known      map[string]*siteState // and those of earlier configurations that are not forgotten yet
	Numbered   []*siteState          // by number; nil where none is
	Free       []uint32              // numbers
	generation uint32                // of the configuration
}

// siteState is what a site has used of its limits.
type siteState struct {
	id            uint32        // its number
	generation    uint32        // of the configuration that it has met
	Config        settings.Site // the last one, when the site is gone
	Registrations int
	registers     timing.Bucket  // of the site's own rate
	authFailedAt  timing.Instant // 0 for never
	Nonces        map[NonceKey]SeenNonce
	nonceKeys     []NonceKey         // of these, as they came
	KeysInUse     map[NonceKey]uint8 // the Key ID that an xTR (key 0 here) registered with last
}

// configure takes over other sites.
func (t *siteTable) configure(sites []settings.Site, index map[string]int) {
	t.configured, t.index, t.states = sites, index, make([]*siteState, len(sites))
	t.generation++
	if t.Known == nil {
		t.Known = make(map[string]*siteState)
	}
}

// At is a site of the configuration.
func (t *siteTable) At(index int) *siteState {
	if state := t.states[index]; state != nil {
		return state
	}
	name := t.configured[index].Name
	state := t.Known[name]
	if state == nil {
		state = &siteState{Nonces: make(map[NonceKey]SeenNonce), KeysInUse: make(map[NonceKey]uint8)}
		t.number(state)
		t.Known[name] = state
	}
	state.Config, state.generation = t.configured[index], t.generation
	t.states[index] = state
	return state
}

// Named is a site of the configuration, nil where none has that name.
func (t *siteTable) Named(name string) *siteState {
	if index, ok := t.index[name]; ok {
		return t.At(index)
	}
	return nil
}

// numberOf is the site with a number; it may be gone from the configuration.
func (t *siteTable) numberOf(id uint32) *siteState {
	state := t.Numbered[id]
	if state.generation != t.generation {
		t.renew(state)
	}
	return state
}

// renew lets a site meet the current configuration, and reports whether it is in it.
func (t *siteTable) renew(state *siteState) bool {
	state.generation = t.generation
	return t.Named(state.Config.Name) == state
}

// number gives a site its number.
func (t *siteTable) number(state *siteState) {
	if last := len(t.Free) - 1; last >= 0 {
		state.id, t.Free = t.Free[last], t.Free[:last]
		t.Numbered[state.id] = state
		return
	}
	state.id = uint32(len(t.Numbered))
	t.Numbered = append(t.Numbered, state)
}

// forgetGone forgets a site that is gone, which nothing is registered for any more.
func (t *siteTable) forgetGone(id uint32) {
	state := t.Numbered[id]
	if state == nil || t.renew(state) {
		return
	}
	delete(t.Known, state.Config.Name)
	t.Numbered[id] = nil
	t.Free = append(t.Free, id)
}

// NonceKey is whose nonces have to grow (RFC 9301 s.5.6). The source address is no
// part of it: a replay could choose it.
type NonceKey struct {
	XTRID  [16]byte
	SiteID uint64
	KeyID  uint8
}

// holder is the xTR whatever its key, if it says who it is.
func (k NonceKey) holder() (holder NonceKey, known bool) {
	known = k.XTRID != [16]byte{}
	k.KeyID = 0
	return k, known
}

// Saw keeps a nonce, and the key it came with as the one that the xTR uses now.
func (site *siteState) Saw(k NonceKey, n SeenNonce) {
	if _, known := site.Nonces[k]; !known {
		site.nonceKeys = append(site.nonceKeys, k)
	}
	site.Nonces[k] = n
	if holder, known := k.holder(); known {
		site.KeysInUse[holder] = k.KeyID
	}
}

// leftFor is the key that the xTR went on to after this one, if it did.
func (site *siteState) leftFor(k NonceKey) (other NonceKey, left bool) {
	other, _ = k.holder()
	inUse, known := site.KeysInUse[other]
	other.KeyID = inUse
	return other, known && inUse != k.KeyID
}

// sinceLeft is the last nonce under that key.
func (site *siteState) sinceLeft(k NonceKey) (nonce uint64, left bool) {
	other, left := site.leftFor(k)
	if !left {
		return 0, false
	}
	return site.Nonces[other].Nonce, true
}

// SeenNonce is the last nonce with the start of its message's MAC, which tells a
// duplicate from another message.
type SeenNonce struct {
	Nonce uint64
	mac   [16]byte
}

// nonceKeyOf is whose nonces it has to exceed.
func nonceKeyOf(m *message.MapRegister) NonceKey {
	k := NonceKey{KeyID: m.KeyID}
	if m.XTRIDPresent {
		k.XTRID, k.SiteID = m.XTRID, m.SiteID
	}
	return k
}

// maxRegistrations is how many EID-Prefixes the site may register.
func (site *siteState) maxRegistrations(limits *settings.Limits) int {
	if own := site.Config.Policy.MaxRegistrations; own > 0 {
		return min(own, limits.RegistrationsPerSite)
	}
	return limits.RegistrationsPerSite
}
