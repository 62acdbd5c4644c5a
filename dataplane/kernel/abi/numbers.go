// SPDX-License-Identifier: Apache-2.0

// This file names the numbers of bpf/abi.h, which bpf2go mirrors.

package abi

// Version is LISP_ABI_VERSION, the layout of maps; a test compares.
const Version = 42

// Actions of mappings without locators.
const (
	ActionNativelyForward = lisptcLispActionLISP_ACTION_NATIVELY_FORWARD
	ActionSendMapRequest  = lisptcLispActionLISP_ACTION_SEND_MAP_REQUEST
	ActionDrop            = lisptcLispActionLISP_ACTION_DROP
)

// Places of MapCounters.
const (
	CounterEncapsulatedIPv4        = lisptcLispCounterIndexLISP_COUNTER_ENCAPSULATED_IPV4
	CounterEncapsulatedIPv6        = lisptcLispCounterIndexLISP_COUNTER_ENCAPSULATED_IPV6
	CounterDecapsulatedIPv4        = lisptcLispCounterIndexLISP_COUNTER_DECAPSULATED_IPV4
	CounterDecapsulatedIPv6        = lisptcLispCounterIndexLISP_COUNTER_DECAPSULATED_IPV6
	CounterWaiting                 = lisptcLispCounterIndexLISP_COUNTER_WAITING
	CounterTooBig                  = lisptcLispCounterIndexLISP_COUNTER_TOO_BIG
	CounterReleased                = lisptcLispCounterIndexLISP_COUNTER_RELEASED
	CounterTransmitted             = lisptcLispCounterIndexLISP_COUNTER_TRANSMITTED
	CounterNative                  = lisptcLispCounterIndexLISP_COUNTER_NATIVE
	CounterECNAlarm                = lisptcLispCounterIndexLISP_COUNTER_ECN_ALARM
	CounterECNCurious              = lisptcLispCounterIndexLISP_COUNTER_ECN_CURIOUS
	CounterNonceAndVersion         = lisptcLispCounterIndexLISP_COUNTER_NONCE_AND_VERSION
	CounterOuterFragment           = lisptcLispCounterIndexLISP_COUNTER_OUTER_FRAGMENT
	CounterEventLost               = lisptcLispCounterIndexLISP_COUNTER_EVENT_LOST
	CounterToStack                 = lisptcLispCounterIndexLISP_COUNTER_TO_STACK
	CounterMiss                    = lisptcLispCounterIndexLISP_COUNTER_MISS
	CounterDoubleTagged            = lisptcLispCounterIndexLISP_COUNTER_DOUBLE_TAGGED
	CounterRelayedIPv4             = lisptcLispCounterIndexLISP_COUNTER_RELAYED_IPV4
	CounterRelayedIPv6             = lisptcLispCounterIndexLISP_COUNTER_RELAYED_IPV6
	CounterProxied                 = lisptcLispCounterIndexLISP_COUNTER_PROXIED
	CounterEchoRequested           = lisptcLispCounterIndexLISP_COUNTER_ECHO_REQUESTED
	CounterEchoReturned            = lisptcLispCounterIndexLISP_COUNTER_ECHO_RETURNED
	CounterEchoReceived            = lisptcLispCounterIndexLISP_COUNTER_ECHO_RECEIVED
	CounterEchoMissing             = lisptcLispCounterIndexLISP_COUNTER_ECHO_MISSING
	CounterStatusBitsChanged       = lisptcLispCounterIndexLISP_COUNTER_STATUS_BITS_CHANGED
	CounterVersionStaleDestination = lisptcLispCounterIndexLISP_COUNTER_VERSION_STALE_DESTINATION
	CounterVersionStaleSource      = lisptcLispCounterIndexLISP_COUNTER_VERSION_STALE_SOURCE
	CounterEncapsulatedTwice       = lisptcLispCounterIndexLISP_COUNTER_ENCAPSULATED_TWICE
	CounterDecapsulatedTwice       = lisptcLispCounterIndexLISP_COUNTER_DECAPSULATED_TWICE
	CounterSegmented               = lisptcLispCounterIndexLISP_COUNTER_SEGMENTED
	CounterSubflowsLimited         = lisptcLispCounterIndexLISP_COUNTER_SUBFLOWS_LIMITED
	CounterPathUnidentified        = lisptcLispCounterIndexLISP_COUNTER_PATH_UNIDENTIFIED
	CounterMax                     = lisptcLispCounterIndexLISP_COUNTER_MAX
)

// The number of reasons for a drop.
const (
	DropMax = lisptcLispDropLISP_DROP_MAX
)

// Kinds of events.
const (
	EventMiss               = lisptcLispEventKindLISP_EVENT_MISS
	EventStatusBits         = lisptcLispEventKindLISP_EVENT_STATUS_BITS
	EventDestinationVersion = lisptcLispEventKindLISP_EVENT_DESTINATION_VERSION
	EventSourceVersion      = lisptcLispEventKindLISP_EVENT_SOURCE_VERSION
	EventEchoMissing        = lisptcLispEventKindLISP_EVENT_ECHO_MISSING
	EventGleaned            = lisptcLispEventKindLISP_EVENT_GLEANED
)

// Flags of interfaces.
const (
	InterfaceSite            = uint32(lisptcLispInterfaceFlagLISP_INTERFACE_SITE)
	InterfaceCore            = uint32(lisptcLispInterfaceFlagLISP_INTERFACE_CORE)
	InterfaceTAP             = uint32(lisptcLispInterfaceFlagLISP_INTERFACE_TAP)
	InterfaceTakesFrames     = uint32(lisptcLispInterfaceFlagLISP_INTERFACE_TAKES_FRAMES)
	InterfaceChecksumPartial = uint32(lisptcLispInterfaceFlagLISP_INTERFACE_CHECKSUM_PARTIAL)
	InterfacePeer            = uint32(lisptcLispInterfaceFlagLISP_INTERFACE_PEER)
	InterfaceStack           = uint32(lisptcLispInterfaceFlagLISP_INTERFACE_STACK)
	InterfaceTagged          = uint32(lisptcLispInterfaceFlagLISP_INTERFACE_TAGGED)
)

// What a list says of a prefix.
const (
	ListPermits = lisptcLispListEntryLISP_LIST_PERMITS
	ListDenies  = lisptcLispListEntryLISP_LIST_DENIES
)

// Flags of kinds of lists, and the kinds of policies.
const (
	ListDecapsulated = lisptcLispListKindLISP_LIST_DECAPSULATED
	ListRTR          = lisptcLispListKindLISP_LIST_RTR
	ListPITR         = lisptcLispListKindLISP_LIST_PITR
	ListPITRSource   = lisptcLispListKindLISP_LIST_PITR_SOURCE
	ListPETR         = lisptcLispListKindLISP_LIST_PETR
	ListControl      = lisptcLispListKindLISP_LIST_CONTROL
)

// Flags of locators.
const (
	LocatorLocal     = uint8(lisptcLispLocatorFlagLISP_LOCATOR_LOCAL)
	LocatorProbed    = uint8(lisptcLispLocatorFlagLISP_LOCATOR_PROBED)
	LocatorReachable = uint8(lisptcLispLocatorFlagLISP_LOCATOR_REACHABLE)
	LocatorPath      = uint8(lisptcLispLocatorFlagLISP_LOCATOR_PATH)
	LocatorUp        = uint8(lisptcLispLocatorFlagLISP_LOCATOR_UP)
	LocatorNotOnPath = uint8(lisptcLispLocatorFlagLISP_LOCATOR_NOT_ON_PATH)
	LocatorLookup    = uint8(lisptcLispLocatorFlagLISP_LOCATOR_LOOKUP)
)

// Flags of mappings.
const (
	MappingValid         = uint32(lisptcLispMappingFlagLISP_MAPPING_VALID)
	MappingHold          = uint32(lisptcLispMappingFlagLISP_MAPPING_HOLD)
	MappingDatabase      = uint32(lisptcLispMappingFlagLISP_MAPPING_DATABASE)
	MappingStatic        = uint32(lisptcLispMappingFlagLISP_MAPPING_STATIC)
	MappingEchoNonce     = uint32(lisptcLispMappingFlagLISP_MAPPING_ECHO_NONCE)
	MappingRegistered    = uint32(lisptcLispMappingFlagLISP_MAPPING_REGISTERED)
	MappingSingleNextHop = uint32(lisptcLispMappingFlagLISP_MAPPING_SINGLE_NEXT_HOP)
)

// What happens to packets without a mapping.
const (
	MissQueue           = lisptcLispMissPolicyLISP_MISS_QUEUE
	MissDrop            = lisptcLispMissPolicyLISP_MISS_DROP
	MissForwardNatively = lisptcLispMissPolicyLISP_MISS_FORWARD_NATIVELY
)

// The tables that have roots.
const (
	RootMapCache = uint8(lisptcLispRootKindLISP_ROOT_MAP_CACHE)
	RootDatabase = uint8(lisptcLispRootKindLISP_ROOT_DATABASE)
)

// Flags of the settings.
const (
	SettingPublicInternet    = uint32(lisptcLispSettingFlagLISP_SETTING_PUBLIC_INTERNET)
	SettingStatusBits        = uint32(lisptcLispSettingFlagLISP_SETTING_STATUS_BITS)
	SettingEchoNonce         = uint32(lisptcLispSettingFlagLISP_SETTING_ECHO_NONCE)
	SettingMapVersions       = uint32(lisptcLispSettingFlagLISP_SETTING_MAP_VERSIONS)
	SettingCheckSource       = uint32(lisptcLispSettingFlagLISP_SETTING_CHECK_SOURCE)
	SettingCheckSourceStrict = uint32(lisptcLispSettingFlagLISP_SETTING_CHECK_SOURCE_STRICT)
	SettingGlean             = uint32(lisptcLispSettingFlagLISP_SETTING_GLEAN)
	SettingInstances         = uint32(lisptcLispSettingFlagLISP_SETTING_INSTANCES)
	SettingOtherPorts        = uint32(lisptcLispSettingFlagLISP_SETTING_OTHER_PORTS)
	SettingRoutesByFlow      = uint32(lisptcLispSettingFlagLISP_SETTING_ROUTES_BY_FLOW)
	SettingAnyStack          = uint32(lisptcLispSettingFlagLISP_SETTING_ANY_STACK)
	SettingLists             = uint32(lisptcLispSettingFlagLISP_SETTING_LISTS)
	SettingTwoLayers         = uint32(lisptcLispSettingFlagLISP_SETTING_TWO_LAYERS)
	SettingMarkNative        = uint32(lisptcLispSettingFlagLISP_SETTING_MARK_NATIVE)
	SettingSubflows          = uint32(lisptcLispSettingFlagLISP_SETTING_SUBFLOWS)
	SettingPathsNumbered     = uint32(lisptcLispSettingFlagLISP_SETTING_PATHS_NUMBERED)
	SettingPathsByNumber     = uint32(lisptcLispSettingFlagLISP_SETTING_PATHS_BY_NUMBER)
	SettingPathsBySource     = uint32(lisptcLispSettingFlagLISP_SETTING_PATHS_BY_SOURCE)
)

// Kinds of steps.
const (
	StepSource       = lisptcLispStepKindLISP_STEP_SOURCE
	StepWithinSite   = lisptcLispStepKindLISP_STEP_WITHIN_SITE
	StepMapping      = lisptcLispStepKindLISP_STEP_MAPPING
	StepLocator      = lisptcLispStepKindLISP_STEP_LOCATOR
	StepRoute        = lisptcLispStepKindLISP_STEP_ROUTE
	StepLISPHeader   = lisptcLispStepKindLISP_STEP_LISP_HEADER
	StepMarking      = lisptcLispStepKindLISP_STEP_MARKING
	StepWait         = lisptcLispStepKindLISP_STEP_WAIT
	StepNative       = lisptcLispStepKindLISP_STEP_NATIVE
	StepStack        = lisptcLispStepKindLISP_STEP_STACK
	StepEncapsulated = lisptcLispStepKindLISP_STEP_ENCAPSULATED
	StepDecapsulated = lisptcLispStepKindLISP_STEP_DECAPSULATED
	StepDrop         = lisptcLispStepKindLISP_STEP_DROP
	StepList         = lisptcLispStepKindLISP_STEP_LIST
	StepLayer        = lisptcLispStepKindLISP_STEP_LAYER
	StepBinding      = lisptcLispStepKindLISP_STEP_BINDING
	StepOnPath       = lisptcLispStepKindLISP_STEP_ON_PATH
)

// Marks of frames at the TAP.
const (
	TAPWaiting     = uint8(lisptcLispTapMagicLISP_TAP_WAITING)
	TAPReleased    = uint8(lisptcLispTapMagicLISP_TAP_RELEASED)
	TAPTransmit    = uint8(lisptcLispTapMagicLISP_TAP_TRANSMIT)
	TAPReassembled = uint8(lisptcLispTapMagicLISP_TAP_REASSEMBLED)
)

// Why a packet was sent to the TAP.
const (
	TAPReasonMiss        = lisptcLispTapReasonLISP_TAP_REASON_MISS
	TAPReasonHold        = lisptcLispTapReasonLISP_TAP_REASON_HOLD
	TAPReasonTooBig      = lisptcLispTapReasonLISP_TAP_REASON_TOO_BIG
	TAPReasonUnreachable = lisptcLispTapReasonLISP_TAP_REASON_UNREACHABLE
	TAPReasonRLOC        = lisptcLispTapReasonLISP_TAP_REASON_RLOC
	TAPReasonSegment     = lisptcLispTapReasonLISP_TAP_REASON_SEGMENT
	TAPReasonChecksum    = lisptcLispTapReasonLISP_TAP_REASON_CHECKSUM
)

// Flags of Watch.
const (
	WatchDrops = uint64(lisptcLispWatchFlagLISP_WATCH_DROPS)
)

// What an action record says to do.
const (
	DoEncapsulate = lisptcLispWhatLISP_DO_ENCAPSULATE
	DoDeliver     = lisptcLispWhatLISP_DO_DELIVER
	DoRelay       = lisptcLispWhatLISP_DO_RELAY
	DoProxy       = lisptcLispWhatLISP_DO_PROXY
)

// NoLocatorSet is LISP_NO_LOCATOR_SET: a mapping without locators.
const NoLocatorSet = ^uint32(0)

// Numbers that are constants of the preprocessor in bpf/abi.h; a test compares.
const (
	ActionsEach = 8192 // LISP_ACTIONS: action records of a processor
	FlowsEach   = 8192 // LISP_FLOWS: entries of the flow cache of a processor
)

// Places of the map of XDP programs (bpf/maps.h), and how many there are.
const (
	XDPCore = iota
	XDPSite
	XDPSets
	XDPPlaces
)
