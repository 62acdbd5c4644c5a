// SPDX-License-Identifier: Apache-2.0

package control

// The sites of a Map-Server: those of the configuration in force, with what each has used of its
// limits. Another configuration of a hundred thousand sites is taken over in one turn, because a site
// meets its new configuration when it is asked for next. Those that are gone are forgotten by the
// pass over the registrations (mapserver_sweep.go).

// siteTable holds the sites.
type siteTable struct {
	configured []Site
	index      map[string]int        // of configured, by name
	states     []*siteState          // of configured, nil until asked for
	known      map[string]*siteState // and those of earlier configurations that are not forgotten yet
	numbered   []*siteState          // by number; nil where none is
	free       []uint32              // numbers
	generation uint32                // of the configuration
}

// siteState is what a site has used of its limits.
type siteState struct {
	id            uint32 // its number
	generation    uint32 // of the configuration that it has met
	config        Site   // the last one, when the site is gone
	registrations int
	registers     bucket  // of the site's own rate
	authFailedAt  instant // 0 for never
	nonces        map[nonceKey]seenNonce
	nonceKeys     []nonceKey         // of these, as they came
	keysInUse     map[nonceKey]uint8 // the Key ID that an xTR (key 0 here) registered with last
}

// configure takes over other sites.
func (t *siteTable) configure(sites []Site, index map[string]int) {
	t.configured, t.index, t.states = sites, index, make([]*siteState, len(sites))
	t.generation++
	if t.known == nil {
		t.known = make(map[string]*siteState)
	}
}

// at is a site of the configuration.
func (t *siteTable) at(index int) *siteState {
	if state := t.states[index]; state != nil {
		return state
	}
	name := t.configured[index].Name
	state := t.known[name]
	if state == nil {
		state = &siteState{nonces: make(map[nonceKey]seenNonce), keysInUse: make(map[nonceKey]uint8)}
		t.number(state)
		t.known[name] = state
	}
	state.config, state.generation = t.configured[index], t.generation
	t.states[index] = state
	return state
}

// named is a site of the configuration, nil where none has that name.
func (t *siteTable) named(name string) *siteState {
	if index, ok := t.index[name]; ok {
		return t.at(index)
	}
	return nil
}

// numberOf is the site with a number; it may be gone from the configuration.
func (t *siteTable) numberOf(id uint32) *siteState {
	state := t.numbered[id]
	if state.generation != t.generation {
		t.renew(state)
	}
	return state
}

// renew lets a site meet the configuration in force, and reports whether it is in it.
func (t *siteTable) renew(state *siteState) bool {
	state.generation = t.generation
	return t.named(state.config.Name) == state
}

// number gives a site its number.
func (t *siteTable) number(state *siteState) {
	if last := len(t.free) - 1; last >= 0 {
		state.id, t.free = t.free[last], t.free[:last]
		t.numbered[state.id] = state
		return
	}
	state.id = uint32(len(t.numbered))
	t.numbered = append(t.numbered, state)
}

// forgetGone forgets a site that is gone, which nothing is registered for any more.
func (t *siteTable) forgetGone(id uint32) {
	state := t.numbered[id]
	if state == nil || t.renew(state) {
		return
	}
	delete(t.known, state.config.Name)
	t.numbered[id] = nil
	t.free = append(t.free, id)
}

// nonceKey is whose nonces have to grow (RFC 9301 s.5.6). The source address is no
// part of it: a replay could choose it.
type nonceKey struct {
	xtrID  [16]byte
	siteID uint64
	keyID  uint8
}

// holder is the xTR whatever its key, if it says who it is.
func (k nonceKey) holder() (holder nonceKey, known bool) {
	known = k.xtrID != [16]byte{}
	k.keyID = 0
	return k, known
}

// saw keeps a nonce, and the key it came with as the one that the xTR uses now.
func (site *siteState) saw(k nonceKey, n seenNonce) {
	if _, known := site.nonces[k]; !known {
		site.nonceKeys = append(site.nonceKeys, k)
	}
	site.nonces[k] = n
	if holder, known := k.holder(); known {
		site.keysInUse[holder] = k.keyID
	}
}

// leftFor is the key that the xTR went on to after this one, if it did.
func (site *siteState) leftFor(k nonceKey) (other nonceKey, left bool) {
	other, _ = k.holder()
	inUse, known := site.keysInUse[other]
	other.keyID = inUse
	return other, known && inUse != k.keyID
}

// sinceLeft is the last nonce under that key.
func (site *siteState) sinceLeft(k nonceKey) (nonce uint64, left bool) {
	other, left := site.leftFor(k)
	if !left {
		return 0, false
	}
	return site.nonces[other].nonce, true
}

// seenNonce is the last nonce with the start of its message's MAC, which tells a
// duplicate from another message.
type seenNonce struct {
	nonce uint64
	mac   [16]byte
}

// nonceKeyOf is whose nonces it has to exceed.
func nonceKeyOf(m *mapRegister) nonceKey {
	k := nonceKey{keyID: m.KeyID}
	if m.XTRIDPresent {
		k.xtrID, k.siteID = m.XTRID, m.SiteID
	}
	return k
}
