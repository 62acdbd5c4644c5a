// SPDX-License-Identifier: Apache-2.0

package control

// The public names of what lives in the packages below: configuration, effects, reports, states. Nothing is defined here.

import (
	"net/netip"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/mapserver"
	"loci/control/internal/message"
	"loci/control/internal/report"
	"loci/control/internal/settings"
	"loci/control/internal/status"
	"loci/control/internal/timing"
	"loci/lisp"
)

// What a Node is told by its operator.
type (
	// Config is the whole configuration of a Node.
	Config = settings.Config
	// ITRConfig configures the ITR.
	ITRConfig = settings.ITRConfig
	// RolePolicy gives a Node the role of RTR, PITR or PETR for the EIDs of an Instance-ID.
	RolePolicy = settings.RolePolicy
	// Role is RTR, PITR or PETR.
	Role = settings.Role
	// ProbingConfig configures RLOC-probing (RFC 9301 s.7.1).
	ProbingConfig = settings.ProbingConfig
	// ETRConfig configures the ETR.
	ETRConfig = settings.ETRConfig
	// MapServerPeer is a Map-Server that one site of the ETR registers with.
	MapServerPeer = settings.MapServerPeer
	// Key is a pre-shared secret between a site and a Map-Server.
	Key = settings.Key
	// DatabaseMapping is an EID-Prefix of this site.
	DatabaseMapping = settings.DatabaseMapping
	// MapServerConfig configures the Map-Server.
	MapServerConfig = settings.MapServerConfig
	// Site is who may register what, with which keys.
	Site = settings.Site
	// SitePrefix is an EID-Prefix that a site may register.
	SitePrefix = settings.SitePrefix
	// ProxyReplyPolicy says who answers Map-Requests for a site.
	ProxyReplyPolicy = settings.ProxyReplyPolicy
	// MapResolverConfig configures the Map-Resolver.
	MapResolverConfig = settings.MapResolverConfig
	// MapServerRoute says which Map-Server to ask for which EIDs.
	MapServerRoute = settings.MapServerRoute
	// Limits bound what others can make a Node do and keep.
	Limits = settings.Limits
	// LocatorPolicy overrides what mappings say about locators.
	LocatorPolicy = settings.LocatorPolicy
	// SiblingConfig is another xTR of the site.
	SiblingConfig = settings.SiblingConfig
	// NATTraversal is how a node finds out that it is behind a NAT, and what it does then.
	NATTraversal = settings.NATTraversal
	// NATProtocol is by which protocol a node finds NATs, and gets through them.
	NATProtocol = settings.NATProtocol
	// RTRPeer is an RTR that a Map-Server offers to nodes behind NATs.
	RTRPeer = settings.RTRPeer
	// NATRelay is what an RTR does for nodes behind NATs.
	NATRelay = settings.NATRelay
	// NATMapServer is a Map-Server that an RTR relays Map-Registers to.
	NATMapServer = settings.NATMapServer
	// SitePolicy is what a Map-Server does for a site beyond what RFC 9301 says.
	SitePolicy = settings.SitePolicy
)

// Rates.
type (
	// Rate is a token bucket.
	Rate = timing.Rate
)

// What a Node wants done.
type (
	// Effect is one of SendPacket, InstallMapping, RemoveMapping, InstallDatabase, RemoveDatabase,.
	Effect = effect.Effect
	// SendPacket is a UDP packet to send, its checksum computed and not zero.
	SendPacket = effect.SendPacket
	// InstallMapping puts an entry into the map-cache of the data plane, in place of the one of the same prefix.
	InstallMapping = effect.InstallMapping
	// RemoveMapping takes an entry out of the map-cache of the data plane.
	RemoveMapping = effect.RemoveMapping
	// InstallDatabase puts an EID-Prefix of the site into the data plane's Database.
	InstallDatabase = effect.InstallDatabase
	// RemoveDatabase takes one out.
	RemoveDatabase = effect.RemoveDatabase
	// SetLocatorState says whether packets may be sent to an RLOC, and before which others.
	SetLocatorState = effect.SetLocatorState
	// BindFlow binds a flow to a path.
	BindFlow = effect.BindFlow
	// UnbindFlow ends the binding of a flow.
	UnbindFlow = effect.UnbindFlow
	// SiblingPath says where packets from this site's EIDs go.
	SiblingPath = effect.SiblingPath
	// SetRTRs says which RTRs may send this node control messages in data packets.
	SetRTRs = effect.SetRTRs
	// MapCacheEntry is a mapping of the map-cache.
	MapCacheEntry = effect.MapCacheEntry
	// RemoveReason says why a mapping left the map-cache.
	RemoveReason = effect.RemoveReason
	// Journal is what an event-loop iteration added to the journal.
	Journal = effect.Journal
	// LocatorState says whether packets are sent to an RLOC, and before which others.
	LocatorState = effect.LocatorState
	// LocatorReason says why a locator is in its state.
	LocatorReason = effect.LocatorReason
	// Notice tells an operator what the protocol did.
	Notice = effect.Notice
	// NoticeKind names an event.
	NoticeKind = effect.NoticeKind
)

// What the data plane reports.
type (
	// Miss says that a packet from a local EID found no mapping.
	Miss = report.Miss
	// Usage says when a map-cache entry last forwarded a packet.
	Usage = report.Usage
	// Heard says when data packets last came from an RLOC.
	Heard = report.Heard
	// StatusBits are the Locator-Status-Bits of a data packet that differ from those before (RFC 9300 s.10).
	StatusBits = report.StatusBits
	// Gleaned is what a data packet from the core says of an inner source without mapping.
	Gleaned = report.Gleaned
	// MapVersions are the Map-Versions that a data packet carried, with the V bit.
	MapVersions = report.MapVersions
	// Subflow is a TCP segment that begins or ends a subflow of Multipath TCP.
	Subflow = report.Subflow
	// BoundFlow is a flow that the data plane has bound to a path.
	BoundFlow = report.BoundFlow
	// ControlPacket is a control message that came in a data packet of Instance-ID 0xFFFFFF.
	ControlPacket = report.ControlPacket
)

// What a Node tells about itself.
type (
	// NAT is how a node looks from outside, and by which RTRs it is reached.
	NAT = status.NAT
	// NATRTR is an RTR by which a node registers.
	NATRTR = status.NATRTR
	// NATView is what one Map-Server said about a node's address.
	NATView = status.NATView
	// NATHost is a host behind a NAT that an RTR knows by simple-nat.
	NATHost = status.NATHost
	// NATRLOC is an RLOC of a node behind a NAT, as an RTR knows it.
	NATRLOC = status.NATRLOC
	// NATBinding is where an RTR forwards the packets of an EID-Prefix.
	NATBinding = status.NATBinding

	// Explanation is what a Node knows of a destination.
	Explanation = status.Explanation
	// SecondLayer is what becomes of packets to an RLOC that is an EID.
	SecondLayer = status.SecondLayer
	// ExplainedLocator is a locator of a mapping with what decides whether it is used.
	ExplainedLocator = status.ExplainedLocator
	// MapCacheStatus is a map-cache entry with its state.
	MapCacheStatus = status.MapCacheStatus
	// MapCacheState says what an entry of the map-cache is doing.
	MapCacheState = status.MapCacheState
	// Registration is what one xTR registered for one EID-Prefix.
	Registration = status.Registration
	// MapServerStatus is how the registration with one Map-Server stands.
	MapServerStatus = status.MapServerStatus
	// KeptMapping is a mapping that is used though the mapping system does not have it any more.
	KeptMapping = status.KeptMapping
	// LostMapping is an EID-Prefix in use that had locators lately and is not registered now.
	LostMapping = status.LostMapping
	// DuplicateEID is an EID-Prefix of ours that another router registers without knowing of us.
	DuplicateEID = status.DuplicateEID
	// RefusedRegistration is what a Map-Server refused from a sender lately.
	RefusedRegistration = status.RefusedRegistration
	// UnreachableMapping is a mapping of which the site calls no locator reachable.
	UnreachableMapping = status.UnreachableMapping
	// StaleMapping is a mapping that is used past its TTL, because the mapping system says nothing about it.
	StaleMapping = status.StaleMapping
	// UnacknowledgedEID is an EID-Prefix that a Map-Server does not acknowledge.
	UnacknowledgedEID = status.UnacknowledgedEID
	// MapServerState says whether a Map-Server has our registration.
	MapServerState = status.MapServerState
	// MapResolverStatus is how things stand with one Map-Resolver of the ITR.
	MapResolverStatus = status.MapResolverStatus
	// MapResolverState says whether a Map-Resolver is heard of.
	MapResolverState = status.MapResolverState
	// LocatorStatus is how things stand with one RLOC of the map-cache.
	LocatorStatus = status.LocatorStatus
	// PendingRequest is a resolution under way.
	PendingRequest = status.PendingRequest
	// PendingState says what a resolution waits for.
	PendingState = status.PendingState
	// SiblingPathReason says why the site's packets go to a sibling.
	SiblingPathReason = status.SiblingPathReason
	// SiblingPathStatus says who gets the site's packets.
	SiblingPathStatus = status.SiblingPathStatus
	// SiblingStatus is what is known of a sibling.
	SiblingStatus = status.SiblingStatus
	// SiblingLocator is a sibling's own locator, as it says.
	SiblingLocator = status.SiblingLocator
	// SubflowStatus is a subflow of Multipath TCP.
	SubflowStatus = status.Subflow
	// AnsweredFlow is a flow to an EID of ours whose path our ETR chose.
	AnsweredFlow = status.AnsweredFlow
	// SubflowReason says by what the path of a subflow was chosen.
	SubflowReason = status.SubflowReason
	// SubflowState says how far a subflow got.
	SubflowState = status.SubflowState
	// RoundTrip sums up the round-trip times of a locator.
	RoundTrip = status.RoundTrip
)

// Counters.
type (
	// Counter is what a Node counts.
	Counter = counter.Counter
	// CounterInfo is a counter's name and meaning.
	CounterInfo = counter.CounterInfo
	// Durations counts how long something took.
	Durations = counter.Durations
)

// From octets to messages.
type (
	// Received is a control message that was parsed and, where its type carries authentication data,.
	Received = message.Received
	// Refusal is why a packet went no further.
	Refusal = message.Refusal
	// Keyring is what Inspect needs of a configuration.
	Keyring = message.Keyring
	// Scratch is memory for a message.
	Scratch = message.Scratch
)

// The Map-Server's journal.
type (
	// JournalDamage tells what of a piece of the journal could not be taken over.
	JournalDamage = mapserver.JournalDamage
)

// Who answers Map-Requests for a site.
const (
	ProxyReplyByRequest = settings.ProxyReplyByRequest
	ProxyReplyAlways    = settings.ProxyReplyAlways
	ProxyReplyNever     = settings.ProxyReplyNever
)

// The protocols of NAT traversal.
const (
	NATAuto    = settings.NATAuto
	NATErmagan = settings.NATErmagan
	NATSimple  = settings.NATSimple
)

// Why a mapping left the map-cache.
const (
	RemoveExpired    = effect.RemoveExpired
	RemoveIdle       = effect.RemoveIdle
	RemoveWithdrawn  = effect.RemoveWithdrawn
	RemoveReplaced   = effect.RemoveReplaced
	RemoveEvicted    = effect.RemoveEvicted
	RemoveConfigured = effect.RemoveConfigured
	RemoveUnknown    = effect.RemoveUnknown
)

// The states of a locator.
const (
	LocatorUnknown     = effect.LocatorUnknown
	LocatorUp          = effect.LocatorUp
	LocatorUnconfirmed = effect.LocatorUnconfirmed
	LocatorDown        = effect.LocatorDown
	LocatorHeard       = effect.LocatorHeard
)

// Why a locator is in its state.
const (
	LocatorNotProbed     = effect.LocatorNotProbed
	LocatorAwaitsReply   = effect.LocatorAwaitsReply
	LocatorAnswered      = effect.LocatorAnswered
	LocatorUnanswered    = effect.LocatorUnanswered
	LocatorReturning     = effect.LocatorReturning
	LocatorAdopted       = effect.LocatorAdopted
	LocatorStatusBit     = effect.LocatorStatusBit
	LocatorNonceMismatch = effect.LocatorNonceMismatch
	LocatorUnreachable   = effect.LocatorUnreachable
)

// The events that notices tell of.
const (
	NoticeRegistered              = effect.NoticeRegistered
	NoticeRegistrationChanged     = effect.NoticeRegistrationChanged
	NoticeRegistrationExpired     = effect.NoticeRegistrationExpired
	NoticeRegistrationWithdrawn   = effect.NoticeRegistrationWithdrawn
	NoticeRegistrationRemoved     = effect.NoticeRegistrationRemoved
	NoticeRegistrationRefused     = effect.NoticeRegistrationRefused
	NoticeMapRegisterSent         = effect.NoticeMapRegisterSent
	NoticeMapNotifyReceived       = effect.NoticeMapNotifyReceived
	NoticeMapNotifySent           = effect.NoticeMapNotifySent
	NoticeMapNotifyUnacknowledged = effect.NoticeMapNotifyUnacknowledged
	NoticeMapServerSilent         = effect.NoticeMapServerSilent
	NoticeEIDNotAcknowledged      = effect.NoticeEIDNotAcknowledged
	NoticeMapRequestSent          = effect.NoticeMapRequestSent
	NoticeMapRequestForwarded     = effect.NoticeMapRequestForwarded
	NoticeMapResolverSilent       = effect.NoticeMapResolverSilent
	NoticeMapResolverAnswers      = effect.NoticeMapResolverAnswers
	NoticeMapRequestUnanswered    = effect.NoticeMapRequestUnanswered
	NoticeMapReplySent            = effect.NoticeMapReplySent
	NoticeNegativeMapReplySent    = effect.NoticeNegativeMapReplySent
	NoticeMapReplyReceived        = effect.NoticeMapReplyReceived
	NoticeMappingInstalled        = effect.NoticeMappingInstalled
	NoticeMappingRefreshed        = effect.NoticeMappingRefreshed
	NoticeMappingKept             = effect.NoticeMappingKept
	NoticeMappingLost             = effect.NoticeMappingLost
	NoticeMappingStale            = effect.NoticeMappingStale
	NoticeMappingRemoved          = effect.NoticeMappingRemoved
	NoticeDuplicateEID            = effect.NoticeDuplicateEID
	NoticeDuplicateEIDEnded       = effect.NoticeDuplicateEIDEnded
	NoticeMappingLoop             = effect.NoticeMappingLoop
	NoticePathsAmbiguous          = effect.NoticePathsAmbiguous
	NoticePathMoved               = effect.NoticePathMoved
	NoticeSolicitMapRequestTaken  = effect.NoticeSolicitMapRequestTaken
	NoticeSolicitMapRequestSent   = effect.NoticeSolicitMapRequestSent
	NoticeMapVersionNotRaised     = effect.NoticeMapVersionNotRaised
	NoticeMapVersionInvalid       = effect.NoticeMapVersionInvalid
	NoticeMessageRefused          = effect.NoticeMessageRefused
	NoticeRLOCProbeSent           = effect.NoticeRLOCProbeSent
	NoticeRLOCProbeAnswered       = effect.NoticeRLOCProbeAnswered
	NoticeRLOCProbeReplySent      = effect.NoticeRLOCProbeReplySent
	NoticeLocatorSilent           = effect.NoticeLocatorSilent
	NoticeLocatorDown             = effect.NoticeLocatorDown
	NoticeLocatorUnconfirmed      = effect.NoticeLocatorUnconfirmed
	NoticeLocatorUp               = effect.NoticeLocatorUp
	NoticeSiblingHeard            = effect.NoticeSiblingHeard
	NoticeSiblingSilent           = effect.NoticeSiblingSilent
	NoticeSiblingPath             = effect.NoticeSiblingPath
	NoticeSiblingPathEnded        = effect.NoticeSiblingPathEnded
	NoticeInfoRequestSent         = effect.NoticeInfoRequestSent
	NoticeInfoRequestUnanswered   = effect.NoticeInfoRequestUnanswered
	NoticeInfoReplyReceived       = effect.NoticeInfoReplyReceived
	NoticeInfoReplySent           = effect.NoticeInfoReplySent
	NoticeNATFound                = effect.NoticeNATFound
	NoticeNATGone                 = effect.NoticeNATGone
	NoticeRTRChosen               = effect.NoticeRTRChosen
	NoticeRTRLeft                 = effect.NoticeRTRLeft
	NoticeRTRConfirmed            = effect.NoticeRTRConfirmed
	NoticeRTRSilent               = effect.NoticeRTRSilent
	NoticeRTRAnswers              = effect.NoticeRTRAnswers
	NoticeNATBindingLost          = effect.NoticeNATBindingLost
	NoticeMapRegisterRelayed      = effect.NoticeMapRegisterRelayed
	NoticeNATBindingMade          = effect.NoticeNATBindingMade
	NoticeNATBindingMoved         = effect.NoticeNATBindingMoved
	NoticeNATBindingRemoved       = effect.NoticeNATBindingRemoved
	NoticeNATRLOCAdded            = effect.NoticeNATRLOCAdded
	NoticeNATRLOCRemoved          = effect.NoticeNATRLOCRemoved
	NoticeSubflowBound            = effect.NoticeSubflowBound
	NoticeSubflowMoved            = effect.NoticeSubflowMoved
	NoticeSubflowEnded            = effect.NoticeSubflowEnded
)

// The roles beside ITR and ETR.
const (
	RoleRTR  = settings.RoleRTR
	RolePITR = settings.RolePITR
	RolePETR = settings.RolePETR
)

// Why no packet can take a locator.
const (
	LocatorPrivate    = effect.LocatorPrivate
	PathOwnNextHop    = effect.PathOwnNextHop
	PathAllHopsLookup = effect.PathAllHopsLookup
	PathHopLookup     = effect.PathHopLookup
	PathHopFamily     = effect.PathHopFamily
	PathHopNotUsable  = effect.PathHopNotUsable
	PathNoHopUsable   = effect.PathNoHopUsable
	PathStrictHopDown = effect.PathStrictHopDown
	PathAllHopsDown   = effect.PathAllHopsDown
	PathNotOnPath     = effect.PathNotOnPath

	LayerMappingLoop    = effect.LayerMappingLoop
	LayerRecursionDepth = effect.LayerRecursionDepth
)

// The states of a map-cache entry.
const (
	MapCacheStatic     = status.MapCacheStatic
	MapCacheComplete   = status.MapCacheComplete
	MapCacheNegative   = status.MapCacheNegative
	MapCacheRefreshing = status.MapCacheRefreshing
	MapCacheGleaned    = status.MapCacheGleaned
	MapCacheStale      = status.MapCacheStale
)

// The states of a registration with a Map-Server.
const (
	MapServerIdle       = status.MapServerIdle
	MapServerSent       = status.MapServerSent
	MapServerWaiting    = status.MapServerWaiting
	MapServerRegistered = status.MapServerRegistered
	MapServerPartial    = status.MapServerPartial
)

// The states of a Map-Resolver.
const (
	MapResolverUnknown = status.MapResolverUnknown
	MapResolverAnswers = status.MapResolverAnswers
	MapResolverSilent  = status.MapResolverSilent
)

// The states of a Map-Request under way.
const (
	PendingWaiting  = status.PendingWaiting
	PendingHoldDown = status.PendingHoldDown
	PendingSettled  = status.PendingSettled
)

// Why the site's packets go by a sibling.
const (
	SiblingPathNone      = status.SiblingPathNone
	SiblingPathRLOCsDown = status.SiblingPathRLOCsDown
	SiblingPathUnproven  = status.SiblingPathUnproven
	SiblingPathNoCore    = status.SiblingPathNoCore
	SiblingPathNoData    = status.SiblingPathNoData
)

// DefaultLimits are those of a router of a million mappings, by the RECOMMENDED values of RFC 9301.
func DefaultLimits() Limits { return settings.DefaultLimits() }

// DefaultProbing is RLOC-probing where nothing is configured.
func DefaultProbing() ProbingConfig { return settings.DefaultProbing() }

// NATInUse are the RLOCs that packets go to, of the bindings of one EID-Prefix.
func NATInUse(bindings []NATBinding) []NATRLOC { return status.NATInUse(bindings) }

// ByProxyETR reports whether a mapping of the data plane is a negative one whose packets
// go to proxy ETRs: locators never come with an action otherwise.
func ByProxyETR(m lisp.Mapping) bool { return settings.ByProxyETR(m) }

// CounterList is every counter of a Node in the order of Node.Counters.
func CounterList() []CounterInfo { return counter.CounterList() }

// DurationBounds are the upper bounds of what Durations tells apart, in order.
func DurationBounds() []time.Duration { bounds := counter.DurationBounds(); return bounds[:] }

// Inspect parses and authenticates one packet of the control port. It may run
// anywhere, at any time. local is the address that the packet came to, which may
// be unknown.
func Inspect(keys *Keyring, local, from netip.AddrPort, b []byte) (Received, *Refusal) {
	return message.Inspect(keys, local, from, b)
}

// InspectIn is Inspect that makes a message in a scratch buffer. Be done with what came of the buffer before
// using it again.
func InspectIn(scratch *Scratch, keys *Keyring, local, from netip.AddrPort, b []byte) (Received, *Refusal) {
	return message.InspectIn(scratch, keys, local, from, b)
}
