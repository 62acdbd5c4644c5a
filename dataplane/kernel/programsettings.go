// SPDX-License-Identifier: Apache-2.0

// This file writes the settings for the programs: own RLOCs, policies for misses, lists, and by flags what they do
// beyond the plain path: what headers carry (RFC 9300 s.10, RFC 9302), site interfaces of several Instance-IDs (RFC
// 9300 s.8), and the RLOC that is an EID (RFC 9300 s.4). What is off costs them one test. Nothing here attaches
// anything.

package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/netspace"
	"loci/dataplane/kernel/nexthop"
	"loci/dataplane/kernel/pending"
	"loci/dataplane/kernel/segmenter"
	"loci/dataplane/kernel/store"
	"loci/dataplane/kernel/tables"
	"loci/dataplane/kernel/tap"
	"loci/forward"
	"loci/lisp"
)

// programSettings are the settings that programs have. One caller at a time puts them in force; anyone may look at
// routes.
type programSettings struct {
	log   *slog.Logger
	space *netspace.Space
	store *store.Store
	tap   *tap.Keeper
	// segmenter has the interface that GSO packets are cut by; the engine changes it
	segmenter *segmenter.Segmenter
	lists     store.Lists // in force
	byFlow    atomic.Bool // routes look at ports
}

// put has programs obey settings, but for own RLOCs.
func (p *programSettings) put(s *dataplane.Settings) (err error) {
	if err := p.putMissPolicies(s.MissPolicies); err != nil {
		return err
	}
	if p.lists, err = p.store.PutLists(s); err != nil {
		return err
	}
	return p.putRecord(*s)
}

// putRecord has programs obey what their record of settings says: also when the TAP, or what routes look at, has
// changed.
func (p *programSettings) putRecord(s dataplane.Settings) error {
	return p.store.PutSettings(p.recordOf(&s))
}

// putLocalRLOCs writes for the programs which packets are for this router, by address and UDP port.
func (p *programSettings) putLocalRLOCs(s *dataplane.Settings) error {
	m := p.store.Map(abi.MapLocalRLOCs)
	ports := []uint16{0} // the data port
	if s.TakesVXLANGPE() {
		ports = append(ports, forward.VXLANGPEPort)
	}
	wanted := map[abi.RLOCKey]bool{}
	for _, r := range s.LocalRLOCs {
		for _, port := range ports {
			key := abi.KeyOf(r)
			key.Port = abi.NetworkOrder(port)
			wanted[key] = true
			if err := m.Put(key, uint32(0)); err != nil {
				return fmt.Errorf("local RLOC %v, port %d: %w", r, port, err)
			}
		}
	}
	return store.Prune[abi.RLOCKey, uint32](m, store.In(wanted))
}

// programPolicies are what programs do with packets that miss. Packets to be handed over
// take the path of those that wait; the pending-packet queue hands them over.
var programPolicies = map[dataplane.MissPolicy]abi.MissPolicy{
	dataplane.MissQueue:           abi.MissQueue,
	dataplane.MissHandOver:        abi.MissQueue,
	dataplane.MissDrop:            abi.MissDrop,
	dataplane.MissForwardNatively: abi.MissForwardNatively,
}

// putMissPolicies writes for the programs which Instance-IDs have a policy of their own.
// Those that have none any more go first, so that there is room.
func (p *programSettings) putMissPolicies(policies map[lisp.InstanceID]dataplane.MissPolicy) error {
	m := p.store.Map(abi.MapMissPolicies)
	errs := []error{store.Prune[lisp.InstanceID, uint32](m, store.In(policies))}
	for instance, policy := range policies {
		errs = append(errs, m.Put(uint32(instance), uint32(programPolicies[policy])))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("policies for misses: %w", err)
	}
	return nil
}

func (p *programSettings) recordOf(s *dataplane.Settings) abi.Settings {
	rloc4 := abi.KeyOf(tables.SourceOf(s.LocalRLOCs, true)).Address
	rloc6 := abi.KeyOf(tables.SourceOf(s.LocalRLOCs, false)).Address
	device := p.tap.TAP()
	return abi.Settings{
		AbiVersion: abi.Version,
		Flags: p.routeFlags(s) | trustedFlags(s.Header) | instancesFlag(s.Interfaces) |
			portsFlag(s) | layersFlag(s) | markFlag(s) | subflowsFlag(s) | pathsFlags(s) | p.lists.Flag(),
		TapIfindex: device.Index, TapMac: device.Mac, SegmenterIfindex: p.segmenter.In,
		MissPolicy: uint8(programPolicies[s.MissPolicy]), MissIntervalNs: uint64(pending.MissInterval),
		HintIntervalNs: uint64(dataplane.HintInterval),
		EchoIntervalNs: uint64(cmp.Or(s.Header.EchoInterval, dataplane.DefaultEchoInterval)),
		EchoWaitNs:     uint64(cmp.Or(s.Header.EchoWait, dataplane.DefaultEchoWait)),
		Rloc4:          [4]uint8(rloc4[:4]), Rloc6: rloc6,
		Lists: p.lists.Kinds, ListGeneration: p.lists.Generation,
	}
}

// lookAtRoutes finds out whether routes look at flows; when that cannot be found out, they
// are taken to. It reports whether that is news.
func (p *programSettings) lookAtRoutes() bool {
	byFlow, err := nexthop.RoutesByFlow(p.space)
	if err != nil {
		p.log.Debug("it cannot be told what routes depend on", "error", err)
		byFlow = true
	}
	return p.byFlow.Swap(byFlow) != byFlow
}

// routeFlags say how packets may go through the host.
func (p *programSettings) routeFlags(s *dataplane.Settings) (flags uint32) {
	byStack := func(i dataplane.Interface) bool { return i.Forwarding == dataplane.ForwardingStack }
	if slices.ContainsFunc(s.Interfaces, byStack) {
		flags |= abi.SettingAnyStack
	}
	if p.byFlow.Load() {
		flags |= abi.SettingRoutesByFlow
	}
	return flags
}

// instancesFlag is set when equal EIDs may stand behind several site interfaces.
func instancesFlag(interfaces []dataplane.Interface) uint32 {
	instances := map[lisp.InstanceID]bool{}
	for _, i := range interfaces {
		if i.Side == dataplane.SideSite {
			instances[i.Instance] = true
		}
	}
	if len(instances) > 1 {
		return abi.SettingInstances
	}
	return 0
}

// portsFlag is set when packets to other ports than that of LISP are ours.
func portsFlag(s *dataplane.Settings) uint32 {
	if s.TakesVXLANGPE() {
		return abi.SettingOtherPorts
	}
	return 0
}

// layersFlag is set when packets may get two layers.
func layersFlag(s *dataplane.Settings) uint32 {
	if s.RecursionDepth > 1 {
		return abi.SettingTwoLayers
	}
	return 0
}

// markFlag is set when the stack translates packets that negative mappings leave to it.
func markFlag(s *dataplane.Settings) uint32 {
	if s.MarkNative {
		return abi.SettingMarkNative
	}
	return 0
}

// subflowsFlag is set when programs tell of TCP packets that begin or end a connection which may be bound.
func subflowsFlag(s *dataplane.Settings) uint32 {
	if s.Subflows {
		return abi.SettingSubflows
	}
	return 0
}

// pathsFlags say what tells the path that a packet is on.
func pathsFlags(s *dataplane.Settings) uint32 {
	switch s.PathIdentification {
	case dataplane.PathsNumbered:
		return abi.SettingPathsNumbered
	case dataplane.PathsByNumber:
		return abi.SettingPathsNumbered | abi.SettingPathsByNumber
	case dataplane.PathsBySource:
		return abi.SettingPathsBySource
	}
	return 0
}

// trustedFlags are the programs' flags for the settings of headers.
func trustedFlags(h dataplane.HeaderSettings) (flags uint32) {
	for flag, on := range map[uint32]bool{
		abi.SettingPublicInternet:    h.PublicInternet,
		abi.SettingStatusBits:        h.StatusBits,
		abi.SettingMapVersions:       h.MapVersions,
		abi.SettingEchoNonce:         h.EchoNonce,
		abi.SettingGlean:             h.Glean,
		abi.SettingCheckSource:       h.SourceCheck != dataplane.SourceUnchecked,
		abi.SettingCheckSourceStrict: h.SourceCheck == dataplane.SourceStrict,
	} {
		if on {
			flags |= flag
		}
	}
	return flags
}
