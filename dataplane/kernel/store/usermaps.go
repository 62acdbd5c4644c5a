// SPDX-License-Identifier: Apache-2.0

// This file describes the maps of user space alone, and the words in one of them.

package store

import (
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/tables"
)

// Maps of user space alone, pinned beside the programs'.
const (
	MapWords         = "user_words"       // 64-bit words, see the constants below
	MapSavedSettings = "user_settings"    // JSON behind its length in 4 octets
	MapSavedStates   = "user_states"      // lisp_rloc_key -> LocatorState, of plain RLOCs
	MapPathStates    = "user_path_states" // tables.SavedPath -> LocatorState
)

// Words of mapWords: first user space's drops by reason, as the programs have theirs.
const (
	WordHeldPackets = 64 + iota
	WordEventsLost
	WordClockOffset       // wall clock ahead of the time since boot, in nanoseconds
	WordNamespace         // cookie of the network namespace that the instance is in
	WordTAPErrors         // how often the TAP could not be read, or not be made anew
	WordHandedOver        // packets given to the control plane
	WordPathErrorsRefused // ICMP errors about packets that this router did not send
	WordOuterFragmented   // packets sent in outer fragments
	WordReassembled       // outer packets that came in fragments
	WordUnreachablesSent  // Destination Unreachable sent about dropped packets
	WordOuterChecksummed  // packets sent by user space because of their outer UDP checksum
	WordControlPackets    // control messages in data packets that became events

	// From here on they are about the maps themselves, which those of a later layout do not take over.
	WordPlacesKept = Words - 20 // 1: those that follow are true
	wordPlaces     = Words - 19 // placeWords
	Words          = 128
)

// Sizes of what is kept for the next process.
const (
	maxSettingsOctets = 1 << 19
	maxLocatorStates  = 1 << 16
)

// userMapSpecs describes the maps of user space alone.
func userMapSpecs() map[string]*ebpf.MapSpec {
	return map[string]*ebpf.MapSpec{
		MapWords:         {Name: MapWords, Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: Words, Flags: unix.BPF_F_MMAPABLE},
		MapSavedSettings: {Name: MapSavedSettings, Type: ebpf.Array, KeySize: 4, ValueSize: maxSettingsOctets, MaxEntries: 1},
		MapSavedStates: {Name: MapSavedStates, Type: ebpf.Hash, KeySize: uint32(unsafe.Sizeof(abi.RLOCKey{})), ValueSize: 1,
			MaxEntries: maxLocatorStates, Flags: unix.BPF_F_NO_PREALLOC},
		MapPathStates: {Name: MapPathStates, Type: ebpf.Hash, KeySize: uint32(unsafe.Sizeof(tables.SavedPath{})), ValueSize: 1,
			MaxEntries: maxLocatorStates, Flags: unix.BPF_F_NO_PREALLOC},
	}
}
