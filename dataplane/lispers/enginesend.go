// SPDX-License-Identifier: Apache-2.0

package lispers

// What the data plane is told, and when. What is to be told is kept as the names of
// what changed, not as messages: so a data plane that does not read costs no memory
// beyond the tables, and when it reads again it is told how things are now. One that
// comes new is told everything.

import (
	"errors"
	"time"

	"loci/lisp"
)

// resyncInterval is how often the entire map-cache may be told: a data plane that
// restarts again and again, or pretends to, costs no more.
const resyncInterval = time.Second

// maxUntold is how many changes beyond the table's size may be noted; with more, all of
// it is told anew.
const maxUntold = 1 << 16

// untold is what changed since the data plane was told. Engine.mu guards it.
type untold struct {
	limit                            int // of mappings
	entire                           resync
	answeredAt                       time.Time // when a restart was last answered
	parameters, interfaces, database bool
	mappings                         []lisp.Prefix // in the order of their changes
	named                            map[lisp.Prefix]bool
	keys                             map[peerPort]bool
	busy                             bool // a message is on its way
	deaf                             bool // the data plane does not read, and the log says so
}

// resync is how much of the map-cache has to be told.
type resync uint8

const (
	resyncNothing resync = iota
	resyncEntries        // the data plane said that its tables are empty
	resyncClear          // its tables may hold anything: they are cleared first
)

// mapping notes that a prefix changed. When all of it will be told anyway, that is
// enough.
func (u *untold) mapping(prefix lisp.Prefix) {
	if u.entire != resyncNothing || u.named[prefix] {
		return
	}
	if len(u.mappings) >= u.limit {
		u.everything(true)
		return
	}
	if u.named == nil {
		u.named = map[lisp.Prefix]bool{}
	}
	u.named[prefix] = true
	u.mappings = append(u.mappings, prefix)
}

func (u *untold) keysOf(at peerPort) {
	if u.keys == nil {
		u.keys = map[peerPort]bool{}
	}
	u.keys[at] = true
}

// everything asks for the whole map-cache; unless clear is said, the data plane's is
// known to be empty.
func (u *untold) everything(clear bool) {
	u.entire = max(u.entire, resyncEntries)
	if clear {
		u.entire = resyncClear
	}
	u.mappings, u.named = nil, nil
}

// configuration asks for all the rest.
func (u *untold) configuration(keys map[peerPort][]Key) {
	u.parameters, u.interfaces, u.database = true, true, true
	for at := range keys {
		u.keysOf(at)
	}
}

func (u *untold) nothing() bool {
	return u.entire == resyncNothing && !u.parameters && !u.interfaces && !u.database && len(u.mappings) == 0 && len(u.keys) == 0 && !u.busy
}

// rouse has the data plane told.
func (e *Engine) rouse() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// idle reports whether the data plane was told everything.
func (e *Engine) idle() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.untold.nothing()
}

// tell is the goroutine that sends.
func (e *Engine) tell() {
	ticker := time.NewTicker(e.options.WatchInterval)
	defer ticker.Stop()
	e.attend()
	for {
		e.tellAll(ticker.C)
		select {
		case <-e.done:
			return
		case <-e.wake:
		case <-ticker.C:
			e.attend()
		}
	}
}

// attend looks for the data plane; one that is new knows nothing, or too much.
func (e *Engine) attend() {
	came, lost := e.endpoint.attend()
	if lost {
		e.tally.add(peersLost)
		e.options.Log.Warn("the data plane of the lispers.net interface is gone", "socket", e.endpoint.peer)
	}
	if !came {
		return
	}
	e.tally.add(peersCame)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.untold.everything(true)
	e.untold.configuration(e.tables.keys.decryption)
}

// tellAll sends until nothing is left, the data plane does not read, or it is time to
// look for it again.
func (e *Engine) tellAll(interrupt <-chan time.Time) {
	for e.endpoint.connected() {
		select {
		case <-e.done:
			return
		case <-interrupt:
			e.attend()
		default:
		}
		step := e.next()
		if len(step.messages) == 0 || !e.send(step) {
			return
		}
	}
}

// step is what is told next; should it not arrive, again notes it once more.
type step struct {
	messages [][]byte
	again    func()
}

// send reports whether the data plane got the step.
func (e *Engine) send(s step) bool {
	var err error
	for _, text := range s.messages {
		if err = e.endpoint.send(text); err != nil {
			break
		}
		e.tally.add(messagesSent)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.untold.busy = false
	if err == nil {
		e.untold.deaf = false
		return true
	}
	s.again()
	e.tally.add(messagesUnsent)
	if !errors.Is(err, errNoPeer) && !e.untold.deaf {
		e.untold.deaf = true
		e.options.Log.Warn("the data plane of the lispers.net interface does not read", "error", err)
	}
	return false
}

// next takes the most urgent change. The entire map-cache comes first, as the interface
// has it: with the Database alone a data plane would only miss.
func (e *Engine) next() step {
	e.mu.Lock()
	defer e.mu.Unlock()
	u := &e.untold
	var s step
	if u.entire == resyncClear || u.entire == resyncEntries && e.options.Now().Sub(u.answeredAt) >= resyncInterval {
		s = e.entireStep()
	} else {
		s = e.configurationStep()
	}
	switch {
	case len(s.messages) > 0:
	case len(u.mappings) > 0:
		prefix := u.mappings[0]
		u.mappings = u.mappings[1:]
		delete(u.named, prefix)
		s = step{messages: [][]byte{encode(e.tables.message(prefix).json())}, again: func() { u.mapping(prefix) }}
	}
	u.busy = len(s.messages) > 0
	return s
}

// configurationStep is one of the full sets, or the keys of one RLOC.
func (e *Engine) configurationStep() step {
	u := &e.untold
	switch {
	case u.parameters:
		u.parameters = false
		return step{messages: e.parameterMessages(), again: func() { u.parameters = true }}
	case u.interfaces:
		u.interfaces = false
		return step{messages: [][]byte{encode(e.tables.interfacesMessage().json())}, again: func() { u.interfaces = true }}
	case u.database:
		u.database = false
		return step{messages: [][]byte{encode(e.tables.databaseMessage().json())}, again: func() { u.database = true }}
	}
	for at := range u.keys {
		delete(u.keys, at)
		m := decapKeysMessage{from: at, keys: e.tables.keys.decryption[at]}
		return step{messages: [][]byte{encode(m.json())}, again: func() { u.keysOf(at) }}
	}
	return step{}
}

// parameterMessages leaves out ports that are not set.
func (e *Engine) parameterMessages() [][]byte {
	p := e.tables.parameters
	list := [][]byte{encode(parametersMessage{controlPlaneLogging: p.ControlPlaneLogging, dataPlaneLogging: p.DataPlaneLogging, rtr: p.RTR}.json())}
	if p.ETRNATPort != 0 {
		list = append(list, encode(portMessage{kind: typeETRNATPort, port: p.ETRNATPort}.json()))
	}
	if p.ITRCryptoPort != 0 {
		list = append(list, encode(portMessage{kind: typeITRCryptoPort, port: p.ITRCryptoPort}.json()))
	}
	return list
}

// entireFrame is the length of the map-cache's message around its entries.
const entireFrame = len(`{"type":"entire-map-cache","entries":[]}`)

// entireStep tells the map-cache: as much as fits one message, the rest one by one.
// Data planes differ in what a message with entries does to those that it does not
// name, but all take an empty one for "clear".
func (e *Engine) entireStep() step {
	u := &e.untold
	cause := u.entire
	u.entire = resyncNothing
	if cause == resyncEntries {
		u.answeredAt = e.options.Now()
	}
	var first entireMapCacheMessage
	octets, full := entireFrame, false
	for prefix := range e.tables.mappings {
		m := e.tables.message(prefix)
		if !m.add {
			continue
		}
		if !full {
			octets += len(encode(m.json())) + 1
			full = octets > e.options.DatagramOctets
		}
		if full {
			u.mapping(prefix)
			continue
		}
		first.entries = append(first.entries, m)
	}
	s := step{again: func() { u.everything(cause == resyncClear) }}
	if cause == resyncClear && len(first.entries) > 0 {
		s.messages = append(s.messages, encode(entireMapCacheMessage{}.json()))
	}
	s.messages = append(s.messages, encode(first.json()))
	return s
}
