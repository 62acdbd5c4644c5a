// SPDX-License-Identifier: Apache-2.0

package config

// The keys of the model by their names: those that people write instead, and those that an
// earlier version had; what names an item of a list.

import (
	"reflect"
	"strings"

	"loci/config/codec"
	"loci/config/difference"
	"loci/config/mobile"
	"loci/config/translation"
	"loci/lisp"
)

// modelKeys say of the model what its struct tags do not.
var modelKeys = &codec.Schema{
	Root:     reflect.TypeFor[Config](),
	Defaults: setDefaults,
	RootHint: "begin with a section: itr, etr, rtr, pitr, petr, map-server or map-resolver, and a colon",
	Forms:    map[reflect.Type]reflect.Type{reflect.TypeFor[RLOCs](): reflect.TypeFor[Locator](), reflect.TypeFor[ExplicitPath](): reflect.TypeFor[Hop]()},
	Samples: map[reflect.Type]string{
		reflect.TypeFor[ITR](): "{map-resolvers: [ADDRESS]}", reflect.TypeFor[ETR](): "{local-eids: [{eid: PREFIX}]}", reflect.TypeFor[MapResolver](): "{ms-address: [ADDRESS]}",
		reflect.TypeFor[mobile.Node]():   "{default-route: true}",
		reflect.TypeFor[RTR]():           "{relay: [{eid-prefixes: [PREFIX]}]}",
		reflect.TypeFor[StaticMapping](): "{eid: PREFIX, rlocs: [{address: ADDRESS}]}", reflect.TypeFor[LocatorPolicy](): "{rloc-prefix: PREFIX, priority: 255}",
		reflect.TypeFor[AccessList]():    "{packets: decapsulated, address: inner-source, deny: [PREFIX]}",
		reflect.TypeFor[MappingSocket](): "{path: /run/loci/map.sock}", reflect.TypeFor[Lispers](): "{directory: /run/lispers}", reflect.TypeFor[ListenAddress](): "'ADDRESS:9100'", reflect.TypeFor[lisp.InstanceID](): "7",
		reflect.TypeFor[Key](): "{auth-key-value: KEY}", reflect.TypeFor[Secret](): "KEY", reflect.TypeFor[XTRID](): "ID",
		reflect.TypeFor[SiteInterface](): "NAME", reflect.TypeFor[CoreInterface](): "NAME", reflect.TypeFor[InterfaceRef](): "NAME",
		reflect.TypeFor[Locator](): "{address: ADDRESS}", reflect.TypeFor[Hop](): "ADDRESS", reflect.TypeFor[MapServerRoute](): "ADDRESS",
		reflect.TypeFor[Rate](): "{rate: 10/s, burst: 100}", reflect.TypeFor[translation.Pool](): "192.0.2.0/24",
		reflect.TypeFor[translation.Entry](): "{from: PREFIX, pool: 192.0.2.0/24, translate: address-and-port}",
		reflect.TypeFor[Site]():              "{name: NAME, authentication-keys: [{auth-key-value: KEY}], eid-prefixes: [{eid: PREFIX}]}",
	},
	OtherNames: otherNames,
	Removed:    removedKeys,
	Secret:     reflect.TypeFor[Key](),
}

// knownKeys are the names of all keys of the model.
func knownKeys() map[string]bool {
	known := map[string]bool{}
	for _, k := range modelKeys.All() {
		known[k.Key] = true
	}
	return known
}

// otherNames are words that people use for a key of ours.
var otherNames = map[string][]string{
	"address":       {"ms-address"},
	"map-server":    {"ms-address", "map-servers"},
	"key":           {"auth-key-value", "authentication-keys"},
	"secret":        {"auth-key-value"},
	"password":      {"auth-key-value"},
	"key-value":     {"auth-key-value"},
	"value":         {"auth-key-value"},
	"key-file":      {"auth-key-file"},
	"value-file":    {"auth-key-file"},
	"key-id":        {"auth-key-id"},
	"id":            {"auth-key-id", "site-id"},
	"algorithm":     {"auth-algorithm-id"},
	"key-type":      {"auth-algorithm-id"},
	"locator-set":   {"rlocs"},
	"locators":      {"rlocs"},
	"ttl":           {"record-ttl"},
	"time-to-live":  {"record-ttl"},
	"prefix":        {"eid"},
	"eid-prefix":    {"eid", "eid-prefixes"},
	"eid-address":   {"eid"},
	"iid":           {"instance-id"},
	"mp":            {"multicast-priority"},
	"mw":            {"multicast-weight"},
	"action":        {"map-reply-action"},
	"database":      {"local-eids"},
	"eids":          {"local-eids"},
	"interface-ref": {"interface"},
	"listen":        {"addresses"},
	"size":          {"limit"},
	"static":        {"mappings"},
	"name":          {"interface"},
	"timeout":       {"mapping-expiration-timeout"},

	"elp":    {"explicit-locator-path"},
	"path":   {"explicit-locator-path"},
	"hops":   {"explicit-locator-path"},
	"bits":   {"lrs-bits"},
	"strict": {"lrs-bits"},

	"accept-more-specifics": {"more-specifics-accepted"},
	"database-mapping":      {"local-eids"},
}

// removedKeys are the paths of keys that an earlier version had, with what to do about one.
var removedKeys = map[string]string{
	"datapath.power-save": "remove it: Loci leaves power management to the host",
}

// Change is one key that differs.
type Change = difference.Change

// Diff lists what changes from one configuration to the next, in the order of the
// model; nil when both mean the same. It is for the log and for a reload.
func Diff(old, fresh *Config) []Change {
	model := difference.Model{Schema: modelKeys, Identity: identity, IsWhole: func(t reflect.Type) bool {
		return t == reflect.TypeFor[RLOCs]() || t == reflect.TypeFor[ExplicitPath]()
	}}
	return model.Of(reflect.ValueOf(old).Elem(), reflect.ValueOf(fresh).Elem())
}

// identity names an item of a list among its like.
func identity(item any) string {
	switch item := item.(type) {
	case SiteInterface:
		return item.String()
	case CoreInterface:
		return item.Interface.String()
	case Locator:
		return item.String()
	case InstancePolicy:
		return item.InstanceID.String()
	case StaticMapping:
		return item.Prefix().String()
	case MapServerRef:
		return strings.TrimSpace(item.Site + " " + peerText(item.Address))
	case MapServerRoute:
		return peerText(item.Address)
	case LocalEID:
		return item.Prefix().String()
	case AccessList:
		return item.String()
	case Sibling:
		return item.String()
	case RTRRef:
		return item.Address.String()
	case NATMapServer:
		return item.Address.String()
	case Key:
		return codec.Encode(reflect.ValueOf(item.ID)).Text
	case Site:
		return item.Label()
	case EIDPrefix:
		return item.Prefix().String()
	case RelayPolicy:
		return item.InstanceID.String()
	case PITRPolicy:
		return item.InstanceID.String()
	case EIDRange:
		return item.Prefix().String()
	case translation.Entry:
		return item.From.String()
	}
	return codec.OneLine(codec.Encode(reflect.ValueOf(item)))
}
