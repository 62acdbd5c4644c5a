// SPDX-License-Identifier: Apache-2.0

// This file says by flags what programs do beyond the plain path: what headers tell
// (RFC 9300 s.10, RFC 9302), and site interfaces of several Instance-IDs (RFC 9300
// s.8), and the RLOC that is an EID (RFC 9300 s.4). What is off costs them one test. Nothing here attaches anything.

package kernel

import (
	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/lisp"
)

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
