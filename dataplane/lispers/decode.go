// SPDX-License-Identifier: Apache-2.0

package lispers

// Reading messages: any octets give a message or an error that names the field. What
// was read holds no more than the datagram could carry, which MaxDatagram bounds. An
// entry of a list that is wrong is left out and named; it does not spoil the others,
// because a full set with one bad entry is still the full set. Fields that are not
// known are ignored, since the interface grows; nothing is guessed for one that is
// missing, where the interface demands it.

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"loci/lisp"
)

// Reasons why a message, or an entry of one, is not taken.
var (
	errTooLong     = errors.New("longer than a datagram of this interface")
	errNotJSON     = errors.New("not a JSON object of this interface")
	errUnknownType = errors.New("unknown type")
	errField       = errors.New("bad field")
	errMulticast   = errors.New("multicast is not supported")
	errOtherEID    = errors.New("EIDs other than IPv4 and IPv6 are not supported")
)

func refuse(field, format string, arguments ...any) error {
	return fmt.Errorf("%w %s: %s", errField, field, fmt.Sprintf(format, arguments...))
}

func missing(field string) error { return refuse(field, "is missing") }

// decoders has one function for each type.
var decoders = map[string]func([]byte) (message, error){
	typeMapCache:       reading(mapCacheJSON.message),
	typeEntireMapCache: reading(readEntireMapCache),
	typeDatabase:       reading(readDatabase),
	typeInterfaces:     reading(readInterfaces),
	typeDecapKeys:      reading(decapKeysJSON.message),
	typeETRNATPort:     reading(portJSON.message),
	typeITRCryptoPort:  reading(portJSON.message),
	typeParameters:     reading(parametersJSON.message),

	typeRestart:         reading(func(restartJSON) (message, error) { return restartMessage{}, nil }),
	typeDiscovery:       reading(discoveryJSON.message),
	typeStatistics:      reading(readStatistics),
	typeDecapStatistics: reading(readDecapStatistics),
}

// decode reads one datagram.
func decode(datagram []byte) (message, error) {
	if len(datagram) > MaxDatagram {
		return nil, fmt.Errorf("%d octets: %w", len(datagram), errTooLong)
	}
	var head struct {
		Type *string `json:"type"`
	}
	if err := unmarshal(datagram, &head); err != nil {
		return nil, err
	}
	if head.Type == nil {
		return nil, missing("type")
	}
	decoder, known := decoders[*head.Type]
	if !known {
		return nil, fmt.Errorf("%w %s", errUnknownType, shorten([]byte(*head.Type)))
	}
	m, err := decoder(datagram)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", *head.Type, err)
	}
	return m, nil
}

// reading makes a decoder of a function that checks an object.
func reading[T any](check func(T) (message, error)) func([]byte) (message, error) {
	return func(datagram []byte) (message, error) {
		var raw T
		if err := unmarshal(datagram, &raw); err != nil {
			return nil, err
		}
		return check(raw)
	}
}

// unmarshal tells apart what is no JSON and what has a wrong value in a field.
func unmarshal(text []byte, into any) error {
	err := json.Unmarshal(text, into)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &syntax):
		return fmt.Errorf("%w: %v at octet %d", errNotJSON, err, syntax.Offset)
	case errors.As(err, &kind) && kind.Field == "":
		return fmt.Errorf("%w: a %s", errNotJSON, kind.Value)
	case errors.As(err, &kind):
		return refuse(kind.Field, "a %s at octet %d", kind.Value, kind.Offset)
	}
	return fmt.Errorf("%w: %v", errField, err)
}

// unmarshalPart is unmarshal for a part of a message, which is JSON in any case.
func unmarshalPart(field string, text []byte, into any) error {
	err := unmarshal(text, into)
	if errors.Is(err, errNotJSON) {
		return refuse(field, "%s is not an object", shorten(text))
	}
	return err
}

// each reads the entries of a list; those that are wrong are named in refused.
func each[T, V any](list *[]json.RawMessage, check func(T) (V, error)) (values []V, refused []error, err error) {
	if list == nil {
		return nil, nil, missing("the list")
	}
	for i, text := range *list {
		var raw T
		err := unmarshalPart("entry", text, &raw)
		var value V
		if err == nil {
			value, err = check(raw)
		}
		if err != nil {
			refused = append(refused, explain(i, err, len(refused) < maxExplained))
			continue
		}
		values = append(values, value)
	}
	return values, refused, nil
}

// maxExplained is how many wrong entries of one message are told in words; of the
// others only the kind of mistake is kept, so that a bad message stays small.
const maxExplained = 16

func explain(entry int, err error, words bool) error {
	if words {
		return fmt.Errorf("entry %d: %w", entry, err)
	}
	for _, kind := range []error{errMulticast, errOtherEID} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return errField
}

func readPrefix(instance decimal, text string) (lisp.Prefix, error) {
	id, err := instance.within("instance-id", uint64(lisp.MaxInstanceID))
	if err != nil {
		return lisp.Prefix{}, err
	}
	if text == "" {
		return lisp.Prefix{}, missing("eid-prefix")
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return lisp.Prefix{}, wrongPrefix(text)
	}
	if isGroup(p) {
		return lisp.Prefix{}, fmt.Errorf("eid-prefix %s: %w", p, errMulticast)
	}
	return lisp.PrefixFromNetip(lisp.InstanceID(id), p)
}

// wrongPrefix tells EIDs of other kinds from nonsense.
func wrongPrefix(text string) error {
	if p, err := lisp.ParsePrefix(text); err == nil && !p.EID().IsIP() {
		return fmt.Errorf("eid-prefix %s: %w", shorten([]byte(text)), errOtherEID)
	}
	return refuse("eid-prefix", "%s is not an IP prefix", shorten([]byte(text)))
}

func readRLOC(text string) (lisp.RLOC, error) {
	r, err := lisp.ParseRLOC(text)
	if err != nil {
		return lisp.RLOC{}, refuse("rloc", "%s is not a locator", shorten([]byte(text)))
	}
	return r, nil
}

func (j mapCacheJSON) message() (message, error) { return j.entry() }

func (j mapCacheJSON) entry() (m mapCacheMessage, err error) {
	if j.Opcode != "add" && j.Opcode != "delete" {
		return m, refuse("opcode", "%s, want add or delete", shorten([]byte(j.Opcode)))
	}
	if len(j.RLEs) > 0 {
		return m, fmt.Errorf("rles: %w", errMulticast)
	}
	m.add = j.Opcode == "add"
	if m.prefix, err = readPrefix(j.Instance, j.Prefix); err != nil || !m.add {
		return m, err
	}
	if j.RLOCs == nil {
		return m, missing("rlocs")
	}
	if len(j.RLOCs) > lisp.MaxLocators {
		return m, refuse("rlocs", "%d of them, at most %d", len(j.RLOCs), lisp.MaxLocators)
	}
	for _, raw := range j.RLOCs {
		r, err := raw.entry()
		if err != nil {
			return m, err
		}
		m.rlocs = append(m.rlocs, r)
	}
	return m, nil
}

func (j rlocJSON) entry() (r rlocEntry, err error) {
	if r.rloc, err = readRLOC(j.RLOC); err != nil {
		return r, err
	}
	priority, err := j.Priority.within("priority", 255)
	if err != nil {
		return r, err
	}
	weight, err := j.Weight.within("weight", 255)
	if err != nil {
		return r, err
	}
	port, err := j.Port.or(DataPort).within("port", 65535)
	if err != nil {
		return r, err
	}
	r.priority, r.weight, r.port = uint8(priority), uint8(weight), uint16(port)
	r.keyed, r.keys = j.readKeys()
	return r, nil
}

// readKeys tells whether a locator has keys, and those that can be read. Whatever
// stands where keys stand is taken for a wish to encrypt.
func (j rlocJSON) readKeys() (keyed bool, keys []Key) {
	isSet := func(text json.RawMessage) bool {
		compact := strings.Join(strings.Fields(string(text)), "")
		return compact != "" && compact != "null" && compact != "[]" && compact != `""`
	}
	if !isSet(j.Keys) {
		return isSet(j.Encrypt) || isSet(j.ICV), nil
	}
	var list []keyJSON
	if unmarshal(j.Keys, &list) != nil {
		return true, nil
	}
	keys, err := readKeys(list)
	if err != nil {
		return true, nil
	}
	return true, keys
}

func readEntireMapCache(j listJSON[json.RawMessage]) (message, error) {
	entries, refused, err := each(j.Entries, func(raw mapCacheJSON) (mapCacheMessage, error) {
		entry, err := raw.entry()
		if err == nil && !entry.add {
			err = refuse("opcode", "delete in the entire map-cache")
		}
		return entry, err
	})
	return entireMapCacheMessage{entries: entries, refused: refused}, err
}

func readDatabase(j listJSON[json.RawMessage]) (message, error) {
	prefixes, refused, err := each(j.Database, func(raw databaseJSON) (lisp.Prefix, error) {
		return readPrefix(raw.Instance, raw.Prefix)
	})
	return databaseMessage{prefixes: prefixes, refused: refused}, err
}

// maxInterfaceName is the longest name of an interface in Linux, in octets.
const maxInterfaceName = 15

func readInterfaces(j listJSON[json.RawMessage]) (message, error) {
	list, refused, err := each(j.Interfaces, func(raw interfaceJSON) (interfaceEntry, error) {
		id, err := raw.Instance.within("instance-id", uint64(lisp.MaxInstanceID))
		if err == nil && (raw.Interface == "" || len(raw.Interface) > maxInterfaceName) {
			err = refuse("interface", "%s is not the name of an interface", shorten([]byte(raw.Interface)))
		}
		return interfaceEntry{name: raw.Interface, instance: lisp.InstanceID(id)}, err
	})
	return interfacesMessage{list: list, refused: refused}, err
}

func (j decapKeysJSON) message() (message, error) {
	var m decapKeysMessage
	var err error
	if m.from.rloc, err = readRLOC(j.RLOC); err != nil {
		return nil, err
	}
	if j.Port != nil {
		port, err := j.Port.or(0).within("port", 65535)
		if err != nil {
			return nil, err
		}
		m.from.port = uint16(port)
	}
	if j.Keys == nil {
		return nil, missing("keys")
	}
	m.keys, err = readKeys(*j.Keys)
	return m, err
}

func (j portJSON) message() (message, error) {
	port, err := decimal(j.Port).within("port", 65535)
	return portMessage{kind: j.Type, port: uint16(port)}, err
}

func (j parametersJSON) message() (message, error) {
	if j.ControlPlaneLogging == nil || j.DataPlaneLogging == nil || j.RTR == nil {
		return nil, missing("control-plane-logging, data-plane-logging or rtr")
	}
	return parametersMessage{controlPlaneLogging: *j.ControlPlaneLogging, dataPlaneLogging: *j.DataPlaneLogging, rtr: *j.RTR}, nil
}

func (j discoveryJSON) message() (message, error) {
	id, err := j.Instance.within("instance-id", uint64(lisp.MaxInstanceID))
	if err != nil {
		return nil, err
	}
	if j.Interface == nil {
		return nil, missing("interface")
	}
	m := discoveryMessage{instance: lisp.InstanceID(id), interfaceName: *j.Interface}
	if len(m.interfaceName) > maxInterfaceName {
		return nil, refuse("interface", "%s is not the name of an interface", shorten([]byte(m.interfaceName)))
	}
	if m.source, err = readEID("source-eid", j.Source); err != nil {
		return nil, err
	}
	m.destination, err = readEID("dest-eid", j.Dest)
	return m, err
}

func readEID(field, text string) (lisp.EID, error) {
	eid, err := lisp.ParseEID(text)
	switch {
	case err != nil:
		return lisp.EID{}, refuse(field, "%s is not an EID", shorten([]byte(text)))
	case !eid.IsIP():
		return lisp.EID{}, fmt.Errorf("%s: %w", field, errOtherEID)
	case eid.Addr().IsMulticast():
		return lisp.EID{}, fmt.Errorf("%s %s: %w", field, eid, errMulticast)
	}
	return eid, nil
}

func readStatistics(j listJSON[json.RawMessage]) (message, error) {
	entries, refused, err := each(j.Entries, statisticsEntryJSON.entry)
	return statisticsMessage{entries: entries, refused: refused}, err
}

func (j statisticsEntryJSON) entry() (e statisticsEntry, err error) {
	if e.prefix, err = readPrefix(j.Instance, j.Prefix); err != nil {
		return e, err
	}
	for _, raw := range j.RLOCs {
		rloc, err := readRLOC(raw.RLOC)
		if err != nil {
			return e, err
		}
		port, err := raw.Port.or(DataPort).within("port", 65535)
		if err != nil {
			return e, err
		}
		u, err := raw.use()
		if err != nil {
			return e, err
		}
		e.rlocs = append(e.rlocs, rlocUse{rloc: rloc, port: uint16(port), use: u})
	}
	return e, nil
}

// maxCount bounds a count, so that sums of honest ones do not wrap.
const maxCount = 1 << 53

func (j useJSON) use() (u use, err error) {
	if u.packets, err = decimal(j.Packets).within("packet-count", maxCount); err != nil {
		return u, err
	}
	if u.octets, err = decimal(j.Octets).within("byte-count", maxCount); err != nil {
		return u, err
	}
	u.age = float64(j.Age)
	return u, nil
}

func readDecapStatistics(j map[string]json.RawMessage) (message, error) {
	m := decapStatisticsMessage{counts: map[string]use{}}
	for _, word := range decapWords {
		text, present := j[word]
		if !present {
			continue
		}
		var raw useJSON
		if err := unmarshalPart(word, text, &raw); err != nil {
			return nil, fmt.Errorf("%s: %w", word, err)
		}
		u, err := raw.use()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", word, err)
		}
		m.counts[word] = u
	}
	return m, nil
}
