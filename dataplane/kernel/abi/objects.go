// SPDX-License-Identifier: Apache-2.0

// This file loads the compiled objects, and names what is in them.

package abi

import "github.com/cilium/ebpf"

// TCPrograms are the programs at the tc hook.
type TCPrograms = lisptcPrograms

// XDPPrograms are the programs at the XDP hook.
type XDPPrograms = lispxdpPrograms

// LoadTC reads the object with the programs at the tc hook and all maps.
func LoadTC() (*ebpf.CollectionSpec, error) { return loadLisptc() }

// LoadXDP reads the object with the programs at the XDP hook, whose maps are the same.
func LoadXDP() (*ebpf.CollectionSpec, error) { return loadLispxdp() }

// Maps (bpf/maps.h).
const (
	MapActions         = lisptcMapActions
	MapBindings        = lisptcMapBindings
	MapBoundPairs      = lisptcMapBoundPairs
	MapBoundAnswers    = lisptcMapBoundAnswers
	MapClocks          = lisptcMapClocks
	MapCutting         = lisptcMapCutting
	MapContexts        = lisptcMapContexts
	MapCounters        = lisptcMapCounters
	MapDevices         = lisptcMapDevices
	MapDrops           = lisptcMapDrops
	MapEvents          = lisptcMapEvents
	MapFib             = lisptcMapFib
	MapFlows           = lisptcMapFlows
	MapGenerations     = lisptcMapGenerations
	MapSecondLevel6    = lisptcMapSecondLevel6
	MapSecondLayers    = lisptcMapSecondLayers
	MapHeard           = lisptcMapHeard
	MapInstances       = lisptcMapInstances
	MapInterfaceSlots  = lisptcMapInterfaceSlots
	MapInterfaces      = lisptcMapInterfaces
	MapLimits          = lisptcMapLimits
	MapLists           = lisptcMapLists
	MapLocalRLOCs      = lisptcMapLocalRlocs
	MapLocatorSets     = lisptcMapLocatorSets
	MapLocators        = lisptcMapLocators
	MapMappingCounters = lisptcMapMappingCounters
	MapMappingRuns     = lisptcMapMappingRuns
	MapMappings        = lisptcMapMappings
	MapMissPolicies    = lisptcMapMissPolicies
	MapFirstLevel6     = lisptcMapFirstLevel6
	MapPaths           = lisptcMapPaths
	MapPeers           = lisptcMapPeers
	MapPendingSamples  = lisptcMapPendingSamples
	MapRoots           = lisptcMapRoots
	MapSamples         = lisptcMapSamples
	MapSettings        = lisptcMapSettings
	MapSites           = lisptcMapSites
	MapSources         = lisptcMapSources
	MapSteps           = lisptcMapSteps
	MapSubflows        = lisptcMapSubflows
	MapTrusted         = lisptcMapTrusted
	MapBacklog         = lisptcMapBacklog
	MapVLANs           = lisptcMapVlans
	MapWatch           = lisptcMapWatch
	MapFirstLevel4     = lisptcMapFirstLevel4
	MapXDPPrograms     = lisptcMapXdpPrograms
)

// Programs that are attached.
const (
	ProgramCoreEgress  = lisptcProgCoreEgress
	ProgramCoreIngress = lisptcProgCoreIngress
	ProgramLispEgress  = lisptcProgLispEgress
	ProgramLispIngress = lisptcProgLispIngress
	ProgramSiteIngress = lisptcProgSiteIngress
	ProgramXDP         = lispxdpProgLispXdp
)

// Constants that are set when programs are loaded.
const (
	VarDecapL3Flags = lisptcVarLispDecapL3Flags
	VarMappingLimit = lisptcVarLispMappingLimit
	VarTracing      = lisptcVarLispTracing
)
