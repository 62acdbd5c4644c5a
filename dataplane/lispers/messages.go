// SPDX-License-Identifier: Apache-2.0

package lispers

// The messages, in two forms: as values of package lisp that were checked, and as the
// JSON objects that carry them. Nothing here reads from a socket or acts on a message.

import (
	"encoding/json"
	"net/netip"

	"loci/lisp"
)

// The types of messages.
const (
	typeMapCache       = "map-cache"
	typeEntireMapCache = "entire-map-cache"
	typeDatabase       = "database-mappings"
	typeInterfaces     = "interfaces"
	typeDecapKeys      = "decap-keys"
	typeETRNATPort     = "etr-nat-port"
	typeITRCryptoPort  = "itr-crypto-port"
	typeParameters     = "xtr-parameters"

	typeRestart         = "restart"
	typeDiscovery       = "discovery"
	typeStatistics      = "statistics"
	typeDecapStatistics = "decap-statistics"
)

// message is one that was read and checked.
type message interface{ typeName() string }

// mapCacheMessage adds or deletes one map-cache entry.
type mapCacheMessage struct {
	add    bool
	prefix lisp.Prefix
	rlocs  []rlocEntry // none: no locator is usable
}

// rlocEntry is a locator of a map-cache entry.
type rlocEntry struct {
	rloc             lisp.RLOC
	priority, weight uint8
	port             uint16
	keyed            bool // it carries keys, also when they do not parse
	keys             []Key
}

// entireMapCacheMessage replaces the map-cache.
type entireMapCacheMessage struct {
	entries []mapCacheMessage
	refused []error // of entries that were left out
}

// databaseMessage replaces the Database's EID-Prefixes.
type databaseMessage struct {
	prefixes []lisp.Prefix
	refused  []error
}

// interfacesMessage replaces the interfaces that lead to EIDs.
type interfacesMessage struct {
	list    []interfaceEntry
	refused []error
}

type interfaceEntry struct {
	name     string
	instance lisp.InstanceID
}

// decapKeysMessage gives the keys to decrypt what an RLOC sends.
type decapKeysMessage struct {
	from peerPort
	keys []Key
}

// peerPort is an RLOC and the UDP source port it sends from; 0 when that is unknown.
type peerPort struct {
	rloc lisp.RLOC
	port uint16
}

// portMessage is etr-nat-port or itr-crypto-port.
type portMessage struct {
	kind string
	port uint16
}

// parametersMessage is xtr-parameters.
type parametersMessage struct{ controlPlaneLogging, dataPlaneLogging, rtr bool }

// restartMessage says that the data plane began with empty tables.
type restartMessage struct{}

// discoveryMessage says that a packet found no mapping.
type discoveryMessage struct {
	instance            lisp.InstanceID
	source, destination lisp.EID
	interfaceName       string
}

// statisticsMessage tells the use of map-cache entries since the last one.
type statisticsMessage struct {
	entries []statisticsEntry
	refused []error
}

type statisticsEntry struct {
	prefix lisp.Prefix
	rlocs  []rlocUse
}

type rlocUse struct {
	rloc lisp.RLOC
	port uint16
	use  use
}

// use is a number of packets, their octets, and the age of the last of them.
type use struct {
	packets, octets uint64
	age             float64 // seconds
}

// decapStatisticsMessage tells what was decapsulated or dropped since the last one, by
// the interface's words.
type decapStatisticsMessage struct{ counts map[string]use }

func (mapCacheMessage) typeName() string        { return typeMapCache }
func (entireMapCacheMessage) typeName() string  { return typeEntireMapCache }
func (databaseMessage) typeName() string        { return typeDatabase }
func (interfacesMessage) typeName() string      { return typeInterfaces }
func (decapKeysMessage) typeName() string       { return typeDecapKeys }
func (m portMessage) typeName() string          { return m.kind }
func (parametersMessage) typeName() string      { return typeParameters }
func (restartMessage) typeName() string         { return typeRestart }
func (discoveryMessage) typeName() string       { return typeDiscovery }
func (statisticsMessage) typeName() string      { return typeStatistics }
func (decapStatisticsMessage) typeName() string { return typeDecapStatistics }

// The words of decap-statistics.
const (
	wordGood           = "good-packets"
	wordICV            = "ICV-error"
	wordChecksum       = "checksum-error"
	wordLISPHeader     = "lisp-header-error"
	wordNoKey          = "no-decrypt-key"
	wordInnerVersion   = "bad-inner-version"
	wordOuterHeader    = "outer-header-error"
	decapWordCount     = 7
	decapWordGoodIndex = 0
)

var decapWords = [decapWordCount]string{
	decapWordGoodIndex: wordGood, 1: wordICV, 2: wordChecksum, 3: wordLISPHeader, 4: wordNoKey, 5: wordInnerVersion, 6: wordOuterHeader,
}

// The JSON objects.
type (
	mapCacheJSON struct {
		Type     string          `json:"type"`
		Opcode   string          `json:"opcode"`
		Instance decimal         `json:"instance-id"`
		Prefix   string          `json:"eid-prefix"`
		RLOCs    []rlocJSON      `json:"rlocs"`
		RLEs     json.RawMessage `json:"rles,omitempty"`
	}
	rlocJSON struct {
		RLOC     string  `json:"rloc"`
		Priority decimal `json:"priority"`
		Weight   decimal `json:"weight"`
		Port     decimal `json:"port"`
		// The keys are read by themselves: one that is wrong must not spoil the
		// message that says that packets are to be encrypted.
		Keys json.RawMessage `json:"keys,omitempty"`
		// Older planes have the key in the locator itself.
		Encrypt json.RawMessage `json:"encrypt-key,omitempty"`
		ICV     json.RawMessage `json:"icv-key,omitempty"`
	}
	listJSON[T any] struct {
		Type       string `json:"type"`
		Entries    *[]T   `json:"entries,omitempty"`
		Database   *[]T   `json:"database-mappings,omitempty"`
		Interfaces *[]T   `json:"interfaces,omitempty"`
	}
	databaseJSON struct {
		Instance decimal `json:"instance-id"`
		Prefix   string  `json:"eid-prefix"`
	}
	interfaceJSON struct {
		Interface string  `json:"interface"`
		Instance  decimal `json:"instance-id"`
	}
	decapKeysJSON struct {
		Type string     `json:"type"`
		RLOC string     `json:"rloc"`
		Port *decimal   `json:"port,omitempty"`
		Keys *[]keyJSON `json:"keys"`
	}
	portJSON struct {
		Type string `json:"type"`
		Port whole  `json:"port"`
	}
	parametersJSON struct {
		Type                string `json:"type"`
		ControlPlaneLogging *bool  `json:"control-plane-logging"`
		DataPlaneLogging    *bool  `json:"data-plane-logging"`
		RTR                 *bool  `json:"rtr"`
	}
	restartJSON struct {
		Type string `json:"type"`
	}
	discoveryJSON struct {
		Type      string  `json:"type"`
		Source    string  `json:"source-eid"`
		Dest      string  `json:"dest-eid"`
		Interface *string `json:"interface"`
		Instance  decimal `json:"instance-id"`
	}
	statisticsEntryJSON struct {
		Instance decimal       `json:"instance-id"`
		Prefix   string        `json:"eid-prefix"`
		RLOCs    []rlocUseJSON `json:"rlocs"`
	}
	rlocUseJSON struct {
		RLOC string  `json:"rloc"`
		Port decimal `json:"port"`
		useJSON
	}
	useJSON struct {
		Packets whole   `json:"packet-count"`
		Octets  whole   `json:"byte-count"`
		Age     seconds `json:"seconds-last-packet"`
	}
)

// ipText is a prefix without its Instance-ID, as the interface writes it.
func ipText(p lisp.Prefix) string { return p.Netip().String() }

func (m mapCacheMessage) json() mapCacheJSON {
	opcode := "delete"
	if m.add {
		opcode = "add"
	}
	rlocs := make([]rlocJSON, 0, len(m.rlocs))
	for _, r := range m.rlocs {
		j := rlocJSON{RLOC: r.rloc.String(), Priority: decimalOf(r.priority), Weight: decimalOf(r.weight), Port: decimalOf(r.port)}
		if r.keyed {
			j.Keys = encode(encryptKeys(r.keys))
		}
		rlocs = append(rlocs, j)
	}
	return mapCacheJSON{Type: typeMapCache, Opcode: opcode, Instance: decimalOf(m.prefix.Instance()), Prefix: ipText(m.prefix), RLOCs: rlocs}
}

func (m entireMapCacheMessage) json() listJSON[mapCacheJSON] {
	entries := make([]mapCacheJSON, 0, len(m.entries))
	for _, entry := range m.entries {
		entries = append(entries, entry.json())
	}
	return listJSON[mapCacheJSON]{Type: typeEntireMapCache, Entries: &entries}
}

func (m databaseMessage) json() listJSON[databaseJSON] {
	list := make([]databaseJSON, 0, len(m.prefixes))
	for _, p := range m.prefixes {
		list = append(list, databaseJSON{Instance: decimalOf(p.Instance()), Prefix: ipText(p)})
	}
	return listJSON[databaseJSON]{Type: typeDatabase, Database: &list}
}

func (m interfacesMessage) json() listJSON[interfaceJSON] {
	list := make([]interfaceJSON, 0, len(m.list))
	for _, i := range m.list {
		list = append(list, interfaceJSON{Interface: i.name, Instance: decimalOf(i.instance)})
	}
	return listJSON[interfaceJSON]{Type: typeInterfaces, Interfaces: &list}
}

func (m decapKeysMessage) json() decapKeysJSON {
	keys := decryptKeys(m.keys)
	j := decapKeysJSON{Type: typeDecapKeys, RLOC: m.from.rloc.String(), Keys: &keys}
	if m.from.port != 0 {
		port := decimalOf(m.from.port)
		j.Port = &port
	}
	return j
}

func (m portMessage) json() portJSON { return portJSON{Type: m.kind, Port: wholeOf(m.port)} }

func (m parametersMessage) json() parametersJSON {
	return parametersJSON{
		Type: typeParameters, ControlPlaneLogging: &m.controlPlaneLogging, DataPlaneLogging: &m.dataPlaneLogging, RTR: &m.rtr,
	}
}

func (restartMessage) json() restartJSON { return restartJSON{Type: typeRestart} }

func (m discoveryMessage) json() discoveryJSON {
	return discoveryJSON{
		Type: typeDiscovery, Source: m.source.String(), Dest: m.destination.String(), Interface: &m.interfaceName, Instance: decimalOf(m.instance),
	}
}

func (m statisticsMessage) json() listJSON[statisticsEntryJSON] {
	entries := make([]statisticsEntryJSON, 0, len(m.entries))
	for _, e := range m.entries {
		entries = append(entries, e.json())
	}
	return listJSON[statisticsEntryJSON]{Type: typeStatistics, Entries: &entries}
}

func (e statisticsEntry) json() statisticsEntryJSON {
	j := statisticsEntryJSON{Instance: decimalOf(e.prefix.Instance()), Prefix: ipText(e.prefix), RLOCs: []rlocUseJSON{}}
	for _, r := range e.rlocs {
		j.RLOCs = append(j.RLOCs, r.json())
	}
	return j
}

func (r rlocUse) json() rlocUseJSON {
	return rlocUseJSON{RLOC: r.rloc.String(), Port: decimalOf(r.port), useJSON: r.use.json()}
}

func (u use) json() useJSON {
	return useJSON{Packets: wholeOf(u.packets), Octets: wholeOf(u.octets), Age: seconds(u.age)}
}

func (m decapStatisticsMessage) json() map[string]any {
	j := map[string]any{"type": typeDecapStatistics}
	for word, u := range m.counts {
		j[word] = u.json()
	}
	return j
}

// isGroup tells multicast EID-Prefixes.
func isGroup(p netip.Prefix) bool { return p.Addr().IsMulticast() }
