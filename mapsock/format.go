// SPDX-License-Identifier: Apache-2.0

package mapsock

// The numbers of the format: types, flags, addresses, attributes, limits, and where
// each field of the fixed parts stands; those of a locator are in locator.go.
// docs/mapsock.md and c/mapsock.h say the same; tests compare the three. No number here
// ever changes its meaning; an incompatible format has another Version.

import (
	"strconv"
	"strings"

	"loci/lisp"
)

// Sizes and limits, in octets unless named otherwise.
const (
	// Version is that of the format. OpenLISP's own, with one octet for the length of
	// a message, was 1.
	Version = 2
	// HeaderSize is what every message begins with.
	HeaderSize = 32
	// MaxMessage is the longest message: the largest multiple of Alignment that the
	// length field holds.
	MaxMessage = 65532
	// MaxDatagram is the longest datagram, of one message or several.
	MaxDatagram = 65536
	// Alignment is what messages, addresses and attributes are padded to.
	Alignment = 4
	// MaxLocators is how many locators a message may have.
	MaxLocators = lisp.MaxLocators
	// MaxNameOctets bounds names of interfaces and counters.
	MaxNameOctets = 255
)

// Offsets in the header.
const (
	offsetLength       = 0  // u16
	offsetVersion      = 2  // u8
	offsetType         = 3  // u8
	offsetFlags        = 4  // u32
	offsetAddresses    = 8  // u16
	offsetMapVersion   = 10 // u16
	offsetLocatorCount = 12 // i32
	offsetPID          = 16 // i32
	offsetSeq          = 20 // u32
	offsetErrno        = 24 // i32
	offsetAttributes   = 28 // u16
	offsetReserved     = 30 // u16
)

// The address structures are Linux's sockaddr_in and sockaddr_in6.
const (
	familyIPv4 = 2
	familyIPv6 = 10

	sockaddrIPv4Size = 16
	sockaddrIPv6Size = 28
)

// Type says what a message asks or reports.
type Type uint8

// OpenLISP's types. The engine reports TypeMiss and what follows.
const (
	TypeAdd           Type = 1
	TypeDelete        Type = 2
	TypeChange        Type = 3
	TypeGet           Type = 4
	TypeMiss          Type = 5 // kept free: OpenLISP's word for any of the next three
	TypeMissEID       Type = 6
	TypeMissHeader    Type = 7
	TypeMissPacket    Type = 8
	TypeStatusBits    Type = 9
	TypeLocalStale    Type = 10
	TypeRemoteStale   Type = 11
	TypeNonceMismatch Type = 12
)

// The types that OpenLISP has no message for.
const (
	TypeFlush             Type = 32
	TypeDump              Type = 33
	TypeSetLocatorState   Type = 34
	TypeDumpLocatorStates Type = 35
	TypeSetSettings       Type = 36
	TypeGetSettings       Type = 37
	TypeGetCounters       Type = 38
	TypeListen            Type = 39
	TypeDetach            Type = 40
	TypeLost              Type = 41
	TypeUnreachable       Type = 42
	TypeMTU               Type = 43
	TypeZeroCounters      Type = 44
	TypeGleaned           Type = 45
	TypeGetPaths          Type = 46
	TypeDumpHeard         Type = 47
	TypeControlPacket     Type = 48
	TypePutFlow           Type = 49
	TypeDeleteFlow        Type = 50
	TypeDumpFlows         Type = 51
	TypeSubflow           Type = 52
)

var typeNames = map[Type]string{
	TypeAdd: "add", TypeDelete: "delete", TypeChange: "change", TypeGet: "get", TypeMiss: "miss", TypeMissEID: "miss-eid",
	TypeMissHeader: "miss-header", TypeMissPacket: "miss-packet", TypeStatusBits: "lsbits", TypeLocalStale: "localstale",
	TypeRemoteStale: "remotestale", TypeNonceMismatch: "noncemismatch", TypeFlush: "flush", TypeDump: "dump",
	TypeSetLocatorState: "set-locator-state", TypeDumpLocatorStates: "dump-locator-states", TypeSetSettings: "set-settings",
	TypeGetSettings: "get-settings", TypeGetCounters: "get-counters", TypeListen: "listen", TypeDetach: "detach",
	TypeLost: "lost", TypeUnreachable: "unreachable", TypeMTU: "mtu", TypeZeroCounters: "zero-counters", TypeGleaned: "gleaned", TypeGetPaths: "get-paths",
	TypeDumpHeard: "dump-heard", TypeControlPacket: "control-packet", TypePutFlow: "put-flow",
	TypeDeleteFlow: "delete-flow",
	TypeDumpFlows:  "dump-flows", TypeSubflow: "subflow",
}

// String names the type as documents and commands do.
func (t Type) String() string {
	if name, ok := typeNames[t]; ok {
		return name
	}
	return "type-" + strconv.Itoa(int(t))
}

// Writes reports whether a message of that type changes something, which only the
// owner may.
func (t Type) Writes() bool {
	switch t {
	case TypeAdd, TypeDelete, TypeChange, TypeFlush, TypeSetLocatorState, TypeSetSettings, TypeDetach, TypeZeroCounters, TypePutFlow,
		TypeDeleteFlow:
		return true
	}
	return false
}

// Flags concern a message or its entry as a whole.
type Flags uint32

// OpenLISP's flags.
const (
	FlagDatabase   Flags = 1 << 0 // the Database, not the map-cache
	FlagVersioning Flags = 1 << 1 // the header's Map-Version counts
	FlagStatusBits Flags = 1 << 2 // Locator-Status-Bits are used
	FlagStatic     Flags = 1 << 3 // never expires
	FlagUp         Flags = 1 << 4 // a locator can be used; reported, never set
	FlagAll        Flags = 1 << 5 // Database and map-cache
	FlagExpired    Flags = 1 << 6 // deleted because its TTL ended
	FlagNegative   Flags = 1 << 7 // has no locators
	FlagDone       Flags = 1 << 8 // has been carried out; reported, never set
)

// The flags that OpenLISP has not.
const (
	FlagOwn           Flags = 1 << 16 // the echo of your own message; reported, never set
	FlagReplace       Flags = 1 << 17 // with add: replace what is there
	FlagMore          Flags = 1 << 18 // more answers to the same message follow; reported, never set
	FlagAuthoritative Flags = 1 << 19 // the A-bit of the Map-Reply (RFC 9301 s.5.4)
	FlagSince         Flags = 1 << 21 // with get-counters: since they were zeroed
	FlagHanded        Flags = 1 << 20 // of a miss: the packet is yours to forward; reported, never set
	FlagEchoNonce     Flags = 1 << 22 // the E-bit of the Map-Reply (RFC 9301 s.5.4)
	FlagGleaned       Flags = 1 << 23 // from a data packet, not verified yet (RFC 9300 s.9)
	FlagStale         Flags = 1 << 24 // used past its TTL, while the mapping system is silent
	FlagByNAT         Flags = 1 << 25 // made by NAT traversal
	FlagRegistered    Flags = 1 << 26 // registered by this RTR: packets to and from its EIDs are relayed
	FlagFromCore      Flags = 1 << 27 // of a subflow: its packet came from the core; reported, never set
)

// FlagsTold are the flags that the server sets. It ignores them in a request, except MORE
// in a SET_SETTINGS.
const FlagsTold = FlagUp | FlagDone | FlagOwn | FlagMore | FlagHanded | FlagFromCore

// Database and MapCache say which tables a message speaks of.
func (f Flags) Database() bool { return f&(FlagDatabase|FlagAll) != 0 }

// MapCache is the other one; FlagAll is both.
func (f Flags) MapCache() bool { return f&FlagDatabase == 0 || f&FlagAll != 0 }

var flagNames = [...]struct {
	flag Flags
	name string
}{
	{FlagUp, "UP"}, {FlagStatic, "STATIC"}, {FlagDatabase, "DB"}, {FlagVersioning, "VERSIONING"}, {FlagStatusBits, "LOCBITS"},
	{FlagAll, "ALL"}, {FlagExpired, "EXPIRED"}, {FlagNegative, "NEGATIVE"}, {FlagOwn, "OWN"}, {FlagReplace, "REPLACE"},
	{FlagMore, "MORE"}, {FlagAuthoritative, "AUTHORITATIVE"}, {FlagHanded, "HANDED"}, {FlagSince, "SINCE"}, {FlagEchoNonce, "ECHO_NONCE"},
	{FlagGleaned, "GLEANED"}, {FlagStale, "STALE"}, {FlagByNAT, "BY_NAT"}, {FlagRegistered, "REGISTERED"},
	{FlagFromCore, "FROM_CORE"},
	{FlagDone, "DONE"},
}

const knownFlags = FlagDatabase | FlagVersioning | FlagStatusBits | FlagStatic | FlagUp | FlagAll | FlagExpired | FlagNegative | FlagDone |
	FlagOwn | FlagReplace | FlagMore | FlagAuthoritative | FlagHanded | FlagSince | FlagEchoNonce | FlagGleaned | FlagStale | FlagByNAT | FlagRegistered |
	FlagFromCore

// String lists the flags as OpenLISP's map command does: <UP,STATIC,DONE>.
func (f Flags) String() string {
	var names []string
	for _, known := range flagNames {
		if f&known.flag != 0 {
			names = append(names, known.name)
		}
	}
	return "<" + strings.Join(names, ",") + ">"
}

// Bits of the header's addresses field, in the order in which they follow.
const (
	addressEID     = 1 << 0
	addressEIDMask = 1 << 1
	addressRLOC    = 1 << 2
)

// Hearing says which messages a listener receives beside the answers to what it asked.
type Hearing uint32

// What can be received. DefaultHearing is what holds until a TypeListen message.
const (
	HearOwn        Hearing = 1 << 0 // echoes of own operations; without it only those that failed
	HearOperations Hearing = 1 << 1 // echoes of others' operations
	HearEvents     Hearing = 1 << 2 // misses and other events
	HearReads      Hearing = 1 << 3 // answers to others' get
	HearPackets    Hearing = 1 << 4 // packets handed to the control plane; for writers, of whom the last gets them

	DefaultHearing = HearOwn | HearOperations | HearEvents
	knownHearing   = DefaultHearing | HearReads | HearPackets
)

// Attribute is the number of an attribute. In a message its top bit says that who
// does not know the number must refuse the message.
type Attribute uint16

// mandatory is that bit.
const mandatory = 0x8000

// The attributes.
const (
	AttributeInstance        Attribute = 1  // u32
	AttributeEID             Attribute = 2  // u8 kind, u8 bits, octets: an EID-Prefix that is not IP
	AttributeSource          Attribute = 3  // u8 kind, u8 bits, octets: the source EID of a miss
	AttributeAction          Attribute = 4  // u32
	AttributeTTL             Attribute = 5  // u32, minutes
	AttributeCreated         Attribute = 6  // time
	AttributeExpires         Attribute = 7  // time
	AttributeLastUsed        Attribute = 8  // time
	AttributePackets         Attribute = 9  // u64
	AttributeOctets          Attribute = 10 // u64
	AttributeInterface       Attribute = 11 // name
	AttributeLocatorState    Attribute = 12 // u32
	AttributeStatusBits      Attribute = 13 // u32
	AttributeReceivedVersion Attribute = 14 // u32
	AttributeMTU             Attribute = 15 // u32
	AttributeError           Attribute = 16 // u32 offset, text
	AttributeLost            Attribute = 17 // u64
	AttributeCount           Attribute = 18 // u64
	AttributeListen          Attribute = 19 // u32
	AttributeMissForm        Attribute = 20 // u32
	AttributePacket          Attribute = 21 // octets
	AttributeWatched         Attribute = 22 // u32 side, hook and forwarding, u32 Instance-ID, name; repeated
	AttributeLocalRLOC       Attribute = 23 // 4 or 16 octets; repeated
	AttributeMissPolicy      Attribute = 24 // u32
	AttributeWaitBounds      Attribute = 25 // 4 × u64
	AttributeCounter         Attribute = 26 // u64, name; repeated
	AttributeDrop            Attribute = 27 // u64, name; repeated
	AttributeOther           Attribute = 28 // u64, name; repeated
	AttributeNonce           Attribute = 29 // u32
	AttributeOtherVersion    Attribute = 30 // u32
	AttributeStatusBitCount  Attribute = 31 // u32
	AttributeICMP            Attribute = 32 // u32: type × 256 + code
	AttributeMissPolicyOf    Attribute = 33 // u32 Instance-ID, u32 policy; repeated
	AttributeHeader          Attribute = 34 // u32 HeaderBits, u32 source check, u64 and u64 nanoseconds
	AttributeEncapsulation   Attribute = 35 // u32 encapsulation, u32 mask length, 0, 4 or 16 octets of an RLOC; repeated
	AttributeList            Attribute = 36 // u32 packets × 256 + address, u32 Instance-ID, prefixes; repeated
	AttributePath            Attribute = 37 // u32 MTU, u32 bits, three times, 4 or 16 octets of an RLOC; repeated
	AttributeHops            Attribute = 38 // u32 locator, u32 next hop, hops; repeated
	AttributeRole            Attribute = 39 // u32 role, u32 Instance-ID, prefixes; repeated
	AttributeRecursionDepth  Attribute = 40 // u32
	AttributeSibling         Attribute = 41 // 4 or 16 octets
	AttributeRTR             Attribute = 42 // 4 or 16 octets; repeated
	AttributeOuter           Attribute = 43 // u16 source port, u16 destination port, their addresses of 4 or 16 octets
	AttributeMarkNative      Attribute = 44 // u32: 0 or 1
	// u8 protocol, u8 0, u16 source port, u16 destination port, u16 0, two EIDs of 4 or 16 octets
	AttributeFlow     Attribute = 45
	AttributeTables   Attribute = 46 // u32: 1 map-cache, 2 Database, 4 flows
	AttributeSubflows Attribute = 47 // u32: 0 or 1
	// AttributePathIdentification is a u32, dataplane.PathIdentification.
	AttributePathIdentification Attribute = 48
)

// Hook, Forwarding and VLAN stand so far above the side in AttributeWatched.
const (
	watchedHookShift       = 8
	watchedForwardingShift = 16
	watchedForwardingMask  = 0xF
	watchedVLANShift       = 20
)

// HeaderBits say what data headers carry, in AttributeHeader.
type HeaderBits uint32

// The bits, as in dataplane.HeaderSettings.
const (
	HeaderPublicInternet HeaderBits = 1 << 0
	HeaderStatusBits     HeaderBits = 1 << 1
	HeaderMapVersions    HeaderBits = 1 << 2
	HeaderEchoNonce      HeaderBits = 1 << 3
	HeaderGlean          HeaderBits = 1 << 4

	knownHeaderBits = HeaderPublicInternet | HeaderStatusBits | HeaderMapVersions | HeaderEchoNonce | HeaderGlean
)

const attributeHeaderSize = 4 // u16 type, u16 octets of the value

// padded is n octets with their padding.
func padded(n int) int { return (n + Alignment - 1) &^ (Alignment - 1) }
