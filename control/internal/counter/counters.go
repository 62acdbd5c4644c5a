// SPDX-License-Identifier: Apache-2.0

package counter

// Counters: every message and every refusal, in one list with a description that
// docs/counters.md is checked against. A refusal reason is a counter: nothing is
// dropped without one.

import (
	"iter"
	"strings"

	"loci/wire"
)

// Counter is what a Node counts: messages first, then the reasons for which
// messages are refused, then those that the parser gives.
type Counter uint8

// What is counted. Keep counterTable in step.
const (
	MapRequestReceived Counter = iota
	MapRequestSent
	MapRequestForwarded
	MapReplyReceived
	MapReplySent
	NegativeMapReplySent
	ProxyMapReplySent
	MapRequestDenied
	MapRegisterReceived
	MapRegisterSent
	MapRegisterRetransmitted
	MapNotifyReceived
	MapNotifySent
	MapNotifyUnsolicitedSent
	MapNotifyUnacknowledged
	MapNotifyAckReceived
	MapNotifyAckSent
	ECMReceived
	RLOCProbeReceived
	RLOCProbeReplySent
	SMRReceived
	SMRSent
	SiblingAsked
	SiblingAnswered
	SiblingTold
	SiblingQuestionAnswered
	SiblingMappingGiven
	SiblingMappingTaken
	SiblingPathTaken
	SMRInvokedMapRequestSent
	VerifyingMapRequestSent
	MissReceived
	MappingInstalled
	MappingExpired
	MappingEvicted
	MappingIdle
	MappingRefreshed
	MappingGleaned
	OwnMapRequestSent
	DuplicateEID
	MappingStale
	MapRequestUnanswered
	MapResolverWentSilent
	RLOCProbeSent
	RLOCProbeToPeer
	RLOCProbeAnswered
	RLOCProbeNews
	MappingStranded
	MappingKept
	MappingLost
	LostMapRequestSent
	LocatorSkipped
	LocatorUnusable
	MappingLoop
	PathsAmbiguous
	LocatorHintReceived
	LocatorWentSilent
	LocatorWentDown
	LocatorWentUnconfirmed
	LocatorCameUp
	PathMoved
	MapVersionOutdated
	MapVersionInvalid
	MapVersionNotRaised
	RegistrationAccepted
	RegistrationExpired
	EIDNotAcknowledged
	RegistrationWithdrawn
	InfoRequestSent
	InfoReplyReceived
	InfoReplySent
	NATKeepaliveSent
	NATBindingLost
	NATKeepaliveUnanswered
	NATRegisterRelayed
	NATNotifySent
	NATNotifyUnsolicited
	NATKeepaliveAnswered
	NATBindingAdded
	NATBindingMoved
	NATBindingExpired
	NATRLOCExpired
	NATProbeReceived
	SubflowReceived
	SubflowBound
	SubflowUnbound
	SubflowMoved
	SubflowEnded
	SubflowUnknownSession
	SubflowAsked
	SubflowAnswered
	SubflowUnanswered
	SubflowPathSent
	NoticeLost

	// Reasons for which something is refused.

	RefusedOversized
	RefusedPort
	RefusedType
	RefusedRole
	RefusedStaleKeys
	RefusedECMInner
	RefusedSecurity
	RefusedNoRecord
	RefusedEID
	RefusedNoITRRLOC
	RefusedFamily
	RefusedProbeInECM
	RefusedProbeHere
	RefusedHopLimit
	RefusedDontReply
	RefusedNoRoute
	RefusedNoMapping
	RefusedReplyLimit
	RefusedReplyTotalLimit
	RefusedNegativeLimit
	RefusedStarting
	RefusedUnknownSite
	RefusedPrefixOutsideSite
	RefusedMoreSpecific
	RefusedUnknownKey
	RefusedAlgorithm
	RefusedAuthentication
	RefusedReplay
	RefusedReplayTable
	RefusedRegistrationTable
	RefusedSiteTable
	RefusedSiteRate
	RefusedRegistrants
	RefusedLocators
	RefusedVersion
	RefusedNotifyLimit
	RefusedNotifyTable
	RefusedNotifyAck
	RefusedUnknownPeer
	RefusedNonce
	RefusedUnrelatedPrefix
	RefusedProbeReply
	RefusedProbeNotAuthoritative
	RefusedProbeLocator
	RefusedProbeLimit
	RefusedLocatorTable
	RefusedHint
	RefusedPolicy
	RefusedGleaning
	RefusedSweepTable
	RefusedSMRWithoutMapping
	RefusedSMRLimit
	RefusedSMRTable
	RefusedPiggybacked
	RefusedPendingTable
	RefusedRequestLimit
	RefusedNoMapResolver
	RefusedOwnEID
	RefusedSiblingQuestion
	RefusedSiblingMapping
	RefusedEncoding
	RefusedControlInData
	RefusedInfoReply
	RefusedInfoLimit
	RefusedNATMapServer
	RefusedNATPrefix
	RefusedRTRAuthentication
	RefusedNATNonce
	RefusedNATReplay
	RefusedNATClaim
	RefusedNATPending
	RefusedNATTable
	RefusedNATHost
	RefusedSubflowOption
	RefusedSubflowVersion
	RefusedSubflowAnswer
	RefusedSubflowTable
	RefusedSubflowRequest
	RefusedSubflowReply
	RefusedSubflowRTR

	refusedParse // one for each wire.Reason follows
)

type counterEntry struct{ name, description string }

// counterTable is indexed by Counter; the names of refusals get the prefix
// "refused_" and all of them the suffix "_total".
var counterTable = [refusedParse]counterEntry{
	MapRequestReceived:       {"map_request_received", "Map-Requests received, in an Encapsulated Control Message or directly; SMRs and RLOC-probes included"},
	MapRequestSent:           {"map_request_sent", "Map-Requests sent by the ITR through a Map-Resolver, retransmissions included"},
	MapRequestForwarded:      {"map_request_forwarded", "Map-Requests that the Map-Resolver or Map-Server passed on"},
	MapReplyReceived:         {"map_reply_received", "Map-Replies received"},
	MapReplySent:             {"map_reply_sent", "Map-Replies sent by the ETR for its own EIDs"},
	NegativeMapReplySent:     {"negative_map_reply_sent", "negative Map-Replies sent by the mapping system"},
	ProxyMapReplySent:        {"proxy_map_reply_sent", "Map-Replies sent by the Map-Server for registered ETRs"},
	MapRequestDenied:         {"map_request_denied", "Map-Requests that the policy of a site denies its requester"},
	MapRegisterReceived:      {"map_register_received", "Map-Registers received that authenticated"},
	MapRegisterSent:          {"map_register_sent", "Map-Registers sent, retransmissions included"},
	MapRegisterRetransmitted: {"map_register_retransmitted", "Map-Registers sent again because no Map-Notify came"},
	MapNotifyReceived:        {"map_notify_received", "Map-Notifies received that authenticated"},
	MapNotifySent:            {"map_notify_sent", "Map-Notifies sent to acknowledge Map-Registers"},
	MapNotifyUnsolicitedSent: {"map_notify_unsolicited_sent", "Map-Notifies sent because another xTR changed a registration, repetitions included"},
	MapNotifyUnacknowledged:  {"map_notify_unacknowledged", "such Map-Notifies given up after the last repetition"},
	MapNotifyAckReceived:     {"map_notify_ack_received", "Map-Notify-Acks received that authenticated"},
	MapNotifyAckSent:         {"map_notify_ack_sent", "Map-Notify-Acks sent for unsolicited Map-Notifies"},
	ECMReceived:              {"ecm_received", "Encapsulated Control Messages received"},
	RLOCProbeReceived:        {"rloc_probe_received", "RLOC-probes received"},
	RLOCProbeReplySent:       {"rloc_probe_reply_sent", "answers to RLOC-probes sent"},
	SMRReceived:              {"smr_received", "Solicit-Map-Requests received; two messages with one nonce count as one"},
	SMRSent:                  {"smr_sent", "Solicit-Map-Requests sent because a mapping of ours changed, repetitions included; two messages with one nonce count as one"},
	SiblingAsked:             {"sibling_asked", "RLOC-probes sent to other xTRs of the site, to ask for their locators or whether the core is reached"},
	SiblingAnswered:          {"sibling_answered", "answers to those"},
	SiblingTold:              {"sibling_told", "Solicit-Map-Requests and Map-Requests sent to other xTRs of the site because our own locators changed, or at a handover of the site's packets"},
	SiblingQuestionAnswered:  {"sibling_question_answered", "answers to other xTRs of the site that asked whether the core answers us"},
	SiblingMappingGiven:      {"sibling_mapping_given", "mappings given to another xTR of the site at a handover"},
	SiblingMappingTaken:      {"sibling_mapping_taken", "mappings taken from another xTR of the site at a handover"},
	SiblingPathTaken:         {"sibling_path_taken", "times that the site's packets were handed to another xTR of the site"},
	SMRInvokedMapRequestSent: {"smr_invoked_map_request_sent", "Map-Requests sent because of a Solicit-Map-Request"},
	VerifyingMapRequestSent:  {"verifying_map_request_sent", "Map-Requests sent to verify a mapping that came unauthenticated, piggybacked on a Map-Request"},
	MissReceived:             {"miss_received", "misses that the data plane reported"},
	MappingInstalled:         {"mapping_installed", "map-cache entries added or changed"},
	MappingExpired:           {"mapping_expired", "map-cache entries whose TTL ended"},
	MappingEvicted:           {"mapping_evicted", "map-cache entries that made room for others"},
	MappingIdle:              {"mapping_idle", "map-cache entries removed because they forwarded nothing"},
	MappingRefreshed:         {"mapping_refreshed", "map-cache entries renewed before their TTL ended"},
	MappingStale:             {"mapping_stale", "mappings that are used past their TTL, because the mapping system is silent"},
	MappingGleaned:           {"mapping_gleaned", "map-cache entries from the outer source of data packets, while the mapping system is asked"},
	OwnMapRequestSent:        {"own_map_request_sent", "Map-Requests for EID-Prefixes of our own, to find other routers that register them"},
	DuplicateEID:             {"duplicate_eid", "EID-Prefixes of our own that were found to be registered by a router that we do not know of"},
	MapRequestUnanswered:     {"map_request_unanswered", "resolutions given up after the last retransmission"},
	MapResolverWentSilent:    {"map_resolver_went_silent", "times that a Map-Resolver left several Map-Requests in a row unanswered"},
	RLOCProbeSent:            {"rloc_probe_sent", "RLOC-probes sent, retries included"},
	RLOCProbeToPeer: {"rloc_probe_to_peer",
		"of these, RLOC-probes without an EID to a peer of itr.rloc-probing.peers that no mapping names"},
	RLOCProbeAnswered:      {"rloc_probe_answered", "RLOC-probes that were answered"},
	RLOCProbeNews:          {"rloc_probe_news", "answers to RLOC-probes with another mapping than the cached one; the mapping system was asked"},
	MappingKept:            {"mapping_kept", "negative Map-Replies that did not replace a mapping whose locators answer or were heard from"},
	MappingLost:            {"mapping_lost", "EID-Prefixes in use that had locators within the last hour and were then called not registered"},
	LostMapRequestSent:     {"lost_map_request_sent", "Map-Requests begun for such EID-Prefixes, and for others that were called not registered within a minute after a silence of the mapping system, before the TTL of the negative answer ended"},
	MappingStranded:        {"mapping_stranded", "Map-Requests begun because none of a mapping's locators answers RLOC-probes"},
	LocatorSkipped:         {"locator_skipped", "locators of Map-Replies that were left out: packets cannot be sent to them (`loci explain` names them)"},
	LocatorUnusable:        {"locator_unusable", "locators of new and changed mappings that packets of this router cannot take, whatever their hops do: they lead back here, or have no hop that it can send to"},
	MappingLoop:            {"mapping_loop", "new and changed mappings whose RLOC is an EID that leads back to itself, or to this router (`recursion-depth: 2`)"},
	PathsAmbiguous:         {"paths_ambiguous", "new and changed mappings of which this RTR stands on several paths with different next hops, without `rtr.path-identification`"},
	LocatorHintReceived:    {"locator_hint_received", "hints of data packets and ICMP about locators: status bits, nonces not echoed, unreachables"},
	LocatorWentSilent:      {"locator_went_silent", "times that a locator was probed because packets are sent to it and none come from it any more"},
	LocatorWentDown:        {"locator_went_down", "times that a locator went down"},
	LocatorWentUnconfirmed: {"locator_went_unconfirmed", "times that a locator's RLOC-probes stayed unanswered, or that it was down and has to prove itself"},
	LocatorCameUp:          {"locator_came_up", "times that a locator that was down or unconfirmed was confirmed"},
	PathMoved:              {"path_moved", "times that packets of an explicit locator path went to another hop"},
	MapVersionOutdated:     {"map_version_outdated", "reports of data packets with an outdated Map-Version of ours, or a newer one of theirs"},
	MapVersionInvalid:      {"map_version_invalid", "reports of data packets with a Map-Version that our mapping never had"},
	MapVersionNotRaised:    {"map_version_not_raised", "changes of our own mappings that kept their Map-Version or lowered it"},
	RegistrationAccepted:   {"registration_accepted", "records of Map-Registers that were taken"},
	RegistrationExpired:    {"registration_expired", "registrations that were not refreshed in time"},
	EIDNotAcknowledged:     {"eid_not_acknowledged", "EID-Prefixes that a Map-Server does not acknowledge although it does others"},
	RegistrationWithdrawn:  {"registration_withdrawn", "registrations withdrawn by a TTL of 0"},
	InfoRequestSent:        {"info_request_sent", "Info-Requests sent to Map-Servers, to find NATs; retransmissions included"},
	InfoReplyReceived:      {"info_reply_received", "Info-Replies that answer one of those"},
	InfoReplySent:          {"info_reply_sent", "Info-Replies sent by the Map-Server"},
	NATKeepaliveSent:       {"nat_keepalive_sent", "RLOC-probes of the RTR, sent from the data port to keep the binding of a NAT"},
	NATBindingLost:         {"nat_binding_lost", "times that the RTR had another address or port for this node, or none; it was registered with anew"},
	NATKeepaliveUnanswered: {"nat_keepalive_unanswered", "RLOC-probes of the RTR that it did not answer; it was registered with anew"},
	NATRegisterRelayed:     {"nat_register_relayed", "Map-Registers of nodes behind NATs that this RTR relayed to a Map-Server"},
	NATNotifySent:          {"nat_notify_sent", "Map-Notifies that this RTR sent to nodes behind NATs, in data packets"},
	NATNotifyUnsolicited:   {"nat_notify_unsolicited", "unsolicited Map-Notifies of Map-Servers about EID-Prefixes that this RTR forwards to nodes behind NATs: passed on, or the mapping was asked for"},
	NATKeepaliveAnswered:   {"nat_keepalive_answered", "RLOC-probes of nodes behind NATs that this RTR answered, in data packets"},
	NATBindingAdded:        {"nat_binding_added", "EID-Prefixes that this RTR began to forward to a node behind a NAT; and hosts of simple-nat"},
	NATBindingMoved:        {"nat_binding_moved", "times that a node behind a NAT registered from another address or port, or a host of simple-nat sent from another port"},
	NATBindingExpired:      {"nat_binding_expired", "EID-Prefixes that this RTR does not forward to a node behind a NAT any more: it did not register again, or withdrew; and hosts of simple-nat that sent no more"},
	NATRLOCExpired:         {"nat_rloc_expired", "RLOCs of nodes behind NATs that this RTR does not forward to any more, and to others of the node it does: no Map-Register came from there, or it is not named any more"},
	NATProbeReceived: {"nat_probe_received",
		"Info-Requests of nodes behind NATs that this RTR of simple-nat took, in data packets"},
	SubflowReceived: {"subflow_received",
		"TCP segments that begin or end a subflow of Multipath TCP, as the data plane reported them"},
	SubflowBound: {"subflow_bound", "subflows that were bound to a path, or to another one"},
	SubflowUnbound: {"subflow_unbound",
		"subflows that are not bound, because their mapping has fewer than two usable paths"},
	SubflowMoved:          {"subflow_moved", "subflows that got another path, because their own left the mapping or answers no RLOC-probes, or that returned to it"},
	SubflowEnded:          {"subflow_ended", "bindings of subflows that ended"},
	SubflowUnknownSession: {"subflow_unknown_session", "subflows that join a session which is not known, as after a restart, which has 256 subflows, or which is between other EIDs: they are bound by their two EIDs"},
	SubflowAsked: {"subflow_asked",
		"Map-Requests sent for the path of one subflow, retransmissions included (`binding: stateful`)"},
	SubflowAnswered: {"subflow_answered", "answers with the path of one subflow that were taken"},
	SubflowUnanswered: {"subflow_unanswered",
		"subflows whose path was not answered after the last retransmission; it is asked for again after 30 s"},
	SubflowPathSent: {"subflow_path_sent",
		"Map-Replies sent by the ETR with the path of one subflow, which are in map_reply_sent_total too"},
	NoticeLost: {"notice_lost", "notices beyond their rate"},

	RefusedOversized:             {"oversized", "messages longer than 9216 octets"},
	RefusedPort:                  {"port", "packets with the control port at neither end, or whose Map-Reply would go to port 0"},
	RefusedType:                  {"type", "messages of a type that no role here takes"},
	RefusedRole:                  {"role", "messages for a role that is off"},
	RefusedStaleKeys:             {"stale_keys", "messages authenticated with keys that were replaced meanwhile; the sender retransmits"},
	RefusedECMInner:              {"ecm_inner", "Encapsulated Control Messages with anything but a Map-Request inside"},
	RefusedSecurity:              {"lisp_sec", "messages with LISP-SEC data, which this version cannot verify"},
	RefusedNoRecord:              {"no_record", "messages without a record"},
	RefusedEID:                   {"eid", "messages about EIDs that are not an IPv4, IPv6 or MAC address or a name"},
	RefusedNoITRRLOC:             {"no_itr_rloc", "Map-Requests without an ITR-RLOC that a reply can be sent to"},
	RefusedFamily:                {"family", "Map-Requests whose ITR-RLOCs are of no family that we have"},
	RefusedProbeInECM:            {"probe_in_ecm", "RLOC-probes inside an Encapsulated Control Message"},
	RefusedProbeHere:             {"probe_at_mapping_system", "RLOC-probes sent to a Map-Server or Map-Resolver"},
	RefusedHopLimit:              {"hop_limit", "Map-Requests, and Map-Registers for an RTR, relayed too often: the mapping system loops"},
	RefusedDontReply:             {"dont_reply", "Map-Requests that want no Map-Reply and are not Solicit-Map-Requests"},
	RefusedNoRoute:               {"no_route", "Map-Requests that the mapping system cannot send on: no ETR or Map-Server is known for them"},
	RefusedNoMapping:             {"no_mapping", "Map-Requests to the ETR for EIDs of others"},
	RefusedReplyLimit:            {"reply_limit", "Map-Requests beyond the rate of one destination RLOC and EID-Prefix"},
	RefusedReplyTotalLimit:       {"reply_total_limit", "Map-Requests beyond the rate of all Map-Replies"},
	RefusedNegativeLimit:         {"negative_limit", "Map-Requests beyond the rate of negative Map-Replies"},
	RefusedStarting:              {"starting", "Map-Requests for EID-Prefixes that are not registered yet, in the first registration interval of a Map-Server"},
	RefusedUnknownSite:           {"unknown_site", "Map-Registers with EID-Prefixes of no site alone"},
	RefusedPrefixOutsideSite:     {"prefix_outside_site", "records of Map-Registers whose EID-Prefix is not the site's; the others are taken, as with the next one"},
	RefusedMoreSpecific:          {"more_specific", "records of Map-Registers whose EID-Prefix is more specific than the site may register"},
	RefusedUnknownKey:            {"unknown_key", "messages with a Key ID that is not configured"},
	RefusedAlgorithm:             {"algorithm", "messages authenticated by another algorithm than the key's"},
	RefusedAuthentication:        {"authentication", "messages whose authentication data does not verify"},
	RefusedReplay:                {"replay", "Map-Registers whose nonce did not grow"},
	RefusedReplayTable:           {"replay_table", "Map-Registers of more xTRs than a site may have"},
	RefusedRegistrationTable:     {"registration_table", "records beyond the limit of registrations"},
	RefusedSiteTable:             {"site_table", "records beyond the site's limit of registrations"},
	RefusedSiteRate:              {"site_rate", "Map-Registers beyond the rate of their site"},
	RefusedRegistrants:           {"registrants", "records of more xTRs than may register one EID-Prefix"},
	RefusedLocators:              {"locators", "records with more locators than a mapping may have, merged ones included"},
	RefusedVersion:               {"version", "records with an older Map-Version than the registered or cached one"},
	RefusedNotifyLimit:           {"notify_limit", "Map-Notifies not sent because of their rate"},
	RefusedNotifyTable:           {"notify_table", "Map-Notifies not sent because too many wait for their acknowledgement"},
	RefusedNotifyAck:             {"notify_ack", "Map-Notify-Acks that acknowledge none of our unsolicited Map-Notifies; lispers.net acknowledges the others too"},
	RefusedUnknownPeer:           {"unknown_peer", "Map-Notifies from a Map-Server that is not configured"},
	RefusedNonce:                 {"nonce", "Map-Replies that answer none of our Map-Requests"},
	RefusedUnrelatedPrefix:       {"unrelated_prefix", "Map-Replies about another EID-Prefix than the one asked for"},
	RefusedProbeReply:            {"probe_reply", "Map-Replies to RLOC-probes that this router did not send"},
	RefusedProbeNotAuthoritative: {"probe_not_authoritative", "answers to RLOC-probes with a record that no ETR answers for (A bit clear), unless `itr.rloc-probing.accept-non-authoritative` is set"},
	RefusedProbeLocator:          {"probe_locator", "answers to RLOC-probes that name a locator of another mapping"},
	RefusedProbeLimit:            {"probe_limit", "RLOC-probes put off because of the rate of all of them"},
	RefusedLocatorTable:          {"locator_table", "locators of mappings beyond the limit of those that are watched"},
	RefusedHint:                  {"locator_hint", "hints about locators that are in no mapping, or that are not believed over the Internet"},
	RefusedPolicy:                {"policy", "misses of packets that the policies of RTR and PITR are not for"},
	RefusedGleaning:              {"gleaning", "outer sources of data packets that are not used as locators: gleaning is off, beyond its rate, waits for an answer, or the RLOC is down or ours"},
	RefusedSweepTable:            {"sweep_table", "Map-Replies that cover very many cached mappings, not all of them looked at"},
	RefusedSMRWithoutMapping:     {"smr_without_mapping", "Solicit-Map-Requests about EIDs that are not in the map-cache"},
	RefusedSMRLimit:              {"smr_limit", "Solicit-Map-Requests beyond the rate of one EID-Prefix, for which a Map-Request is due already"},
	RefusedSMRTable:              {"smr_table", "peers or EID-Prefixes beyond the limit of Solicit-Map-Requests that wait to be sent"},
	RefusedPiggybacked:           {"piggybacked", "mappings piggybacked on Map-Requests for no EID of ours, or about our own EIDs"},
	RefusedPendingTable:          {"pending_table", "misses beyond the limit of Map-Requests under way"},
	RefusedRequestLimit:          {"request_limit", "Map-Requests not sent because of the rate of all of them"},
	RefusedNoMapResolver:         {"no_map_resolver", "misses while no Map-Resolver or no local RLOC is configured"},
	RefusedOwnEID:                {"own_eid", "misses about our own EIDs"},
	RefusedSiblingQuestion:       {"sibling_question", "questions of other xTRs of the site beyond their rate"},
	RefusedSiblingMapping:        {"sibling_mapping", "mappings of another xTR of the site that are here already, or were not asked for"},
	RefusedEncoding:              {"encoding", "messages not sent because they cannot be encoded"},
	RefusedControlInData:         {"control_in_data", "control messages in data packets of Instance-ID 0xFFFFFF that come from no RTR of this node, or are none"},
	RefusedInfoReply:             {"info_reply", "Info-Replies that this router did not ask for, or that name impossible addresses or more than 16 RTRs"},
	RefusedInfoLimit:             {"info_limit", "Info-Requests beyond the rate of one address, or of all"},
	RefusedNATMapServer:          {"nat_map_server", "Map-Registers for Map-Servers, or Map-Notifies from such, that this RTR does not relay to"},
	RefusedNATPrefix:             {"nat_prefix", "Map-Registers of nodes behind NATs with EID-Prefixes that this RTR is not for and does not forward"},
	RefusedRTRAuthentication:     {"rtr_authentication", "Map-Notifies for this RTR without MS-RTR authentication, or with a wrong one"},
	RefusedNATNonce:              {"nat_nonce", "Map-Notifies for this RTR that answer no Map-Register that it relayed"},
	RefusedNATReplay:             {"nat_replay", "Map-Registers for this RTR to relay, from another address than the one that had their nonce before"},
	RefusedNATClaim:              {"nat_claim", "Map-Registers for this RTR to relay, for an EID-Prefix that another node has now, where the Map-Server does not merge both; and Info-Requests of simple-nat from another port than a second ago"},
	RefusedNATPending: {"nat_pending_table",
		"Map-Registers for this RTR to relay beyond the limits of those that wait for a Map-Notify"},
	RefusedNATTable: {"nat_table", "EID-Prefixes of nodes behind NATs beyond the limits of all and of one site, nodes beyond 16 of an EID-Prefix, or RLOCs beyond 8 of a node; and hosts of simple-nat beyond those of all and of one address"},
	RefusedNATHost:  {"nat_host", "Info-Requests for this RTR of simple-nat, in data packets, without a host name, or from an impossible address"},
	RefusedSubflowOption: {"subflow_option",
		"TCP headers of subflows that are truncated, or whose option of Multipath TCP has a wrong length"},
	RefusedSubflowVersion: {"subflow_version",
		"subflows with MP_CAPABLE of another version than 1, or without HMAC-SHA256 (RFC 8684 s.3.1)"},
	RefusedSubflowAnswer: {"subflow_answer",
		"SYN/ACKs from the core that acknowledge no SYN of a known subflow"},
	RefusedSubflowTable: {"subflow_table", "subflows beyond the 65,536 that are known, a quarter of them for one source EID, or half of them half-open; and as many whose path the ETR chose"},
	RefusedSubflowRequest: {"subflow_request",
		"Map-Requests about Application Data that are not for the path of one TCP flow: with port 0 or a range of ports, of another protocol, without a source EID, or with more records"},
	RefusedSubflowReply: {"subflow_reply",
		"Map-Replies about Application Data that are not the path of the subflow asked for: about another one, with none or several locators, or with a path that its mapping does not have"},
	RefusedSubflowRTR: {"subflow_rtr",
		"Map-Requests for the path of a flow that has none yet, by an RTR of one of the paths"},
}

// CounterInfo is a counter's name and meaning.
type CounterInfo struct{ Name, Description string }

// CounterList is every counter of a Node in the order of Counters.
func CounterList() []CounterInfo {
	list := make([]CounterInfo, 0, Count())
	for c := Counter(0); c < Count(); c++ {
		list = append(list, CounterInfo{Name: c.String(), Description: c.description()})
	}
	return list
}

// Count is how many counters there are.
func Count() Counter { return refusedParse + Counter(len(wire.Reasons())) }

// OfParse is the counter of a parser's reason.
func OfParse(r wire.Reason) Counter {
	if r == wire.ReasonNone || int(r) > len(wire.Reasons()) {
		return RefusedType
	}
	return refusedParse + Counter(r-1)
}

// IsRefusal reports whether c counts something that was refused.
func (c Counter) IsRefusal() bool { return c >= RefusedOversized }

// Reason is the word for a refusal, without prefix and suffix.
func (c Counter) Reason() string {
	if c < refusedParse {
		return strings.ReplaceAll(counterTable[c].name, "_", "-")
	}
	return wire.Reason(c - refusedParse + 1).String()
}

// String is the counter's name: map_request_received_total, refused_replay_total.
func (c Counter) String() string {
	name := strings.ReplaceAll(c.Reason(), "-", "_") + "_total"
	if c.IsRefusal() {
		return "refused_" + name
	}
	return name
}

func (c Counter) description() string {
	if c < refusedParse {
		return counterTable[c].description
	}
	if c == OfParse(wire.ReasonZeroChecksum) {
		return "messages that cannot be parsed: " + c.Reason() + " (`control.accept-zero-inner-checksum` accepts them)"
	}
	return "messages that cannot be parsed: " + c.Reason()
}

// Totals are a Node's totals.
type Totals []uint64

// All yields every counter by name.
func (c Totals) All() iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		for i, n := range c {
			if !yield(Counter(i).String(), n) {
				return
			}
		}
	}
}
