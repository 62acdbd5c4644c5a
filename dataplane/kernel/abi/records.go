// SPDX-License-Identifier: Apache-2.0

// This file names the structures of bpf/abi.h, which bpf2go mirrors.

package abi

// Structures and enumerations of bpf/abi.h, where each member is explained.
type (
	// Action is what a mapping without locators says to do.
	Action = lisptcLispAction
	// ActionRecord is what programs made of a decision: headers, next hop, MTU.
	ActionRecord = lisptcLispActionRecord
	// Binding is the path that a flow is bound to.
	Binding = lisptcLispBinding
	// BindingKey is the flow.
	BindingKey = lisptcLispBindingKey
	// Counter is a total of packets and octets.
	Counter = lisptcLispCounter
	// CounterIndex is the place of a counter in MapCounters.
	CounterIndex = lisptcLispCounterIndex
	// Event is what programs tell by MapEvents.
	Event = lisptcLispEvent
	// EventKind is what an Event is about.
	EventKind = lisptcLispEventKind
	// Flow is an entry of the flow cache.
	Flow = lisptcLispFlow
	// Generations has the numbers by which programs see that a table changed.
	Generations = lisptcLispGenerations
	// Heard is what programs remember of the headers of an EID-Prefix.
	Heard = lisptcLispHeard
	// Instance is where the roots of an Instance-ID are.
	Instance = lisptcLispInstance
	// Interface is what programs know of an interface, or of a VLAN of one.
	Interface = lisptcLispInterface
	// InterfaceFlag is a bit of Interface.Flags.
	InterfaceFlag = lisptcLispInterfaceFlag
	// InterfaceSlot holds two records of an interface, of which one counts.
	InterfaceSlot = lisptcLispInterfaceSlot
	// LimitKey is the key of what is limited in rate, and of Heard.
	LimitKey = lisptcLispLimitKey
	// ListKind is which address a list or a policy is about.
	ListKind = lisptcLispListKind
	// ListEntry is what a list says of a prefix.
	ListEntry = lisptcLispListEntry
	// ListKey is a prefix of a deny or allow list.
	ListKey = lisptcLispListKey
	// Locator is a locator of a LocatorSet.
	Locator = lisptcLispLocator
	// LocatorSet is a run of locators and the buckets that choose among them.
	LocatorSet = lisptcLispLocatorSet
	// Mapping is an entry of the map-cache or of the Database.
	Mapping = lisptcLispMapping
	// MappingCounters is how much a mapping was used, on one processor.
	MappingCounters = lisptcLispMappingCounters
	// MissPolicy is what happens to packets without a mapping.
	MissPolicy = lisptcLispMissPolicy
	// Peer is what programs know of an ETR that echoes nonces.
	Peer = lisptcLispPeer
	// RLOCKey is the key of maps that are about RLOCs.
	RLOCKey = lisptcLispRlocKey
	// Roots are the roots of an Instance-ID, where lookups begin.
	Roots = lisptcLispRoots
	// What is done to a packet.
	What = lisptcLispWhat
	// Sample is the beginning of a dropped packet.
	Sample = lisptcLispSample
	// SettingFlag is a bit of Settings.Flags.
	SettingFlag = lisptcLispSettingFlag
	// Settings are what all programs are told.
	Settings = lisptcLispSettings
	// Step is one step of a trace.
	Step = lisptcLispStep
	// StepKind is what a Step is about.
	StepKind = lisptcLispStepKind
	// Subflow is what programs tell by MapSubflows.
	Subflow = lisptcLispSubflow
	// TAPReason is why a packet was sent to the TAP.
	TAPReason = lisptcLispTapReason
	// Backlog counts what is in the queue of the TAP.
	Backlog = lisptcLispBacklog
	// VLANKey names a VLAN of an interface.
	VLANKey = lisptcLispVlanKey
	// Watch says whether dropped packets are captured.
	Watch = lisptcLispWatch
)
