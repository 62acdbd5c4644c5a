// SPDX-License-Identifier: Apache-2.0

// This file puts the steps of a trace into words, with the mapping, locator or
// interface that each is about. It runs nothing.

package observe

import (
	"cmp"
	"fmt"
	"net"
	"strings"

	"golang.org/x/sys/unix"

	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/tables"
	"loci/forward"
	"loci/lisp"
)

// Trace is what becomes of a packet, and by which steps.
type Trace struct {
	Program string      // the program that decided
	Verdict string      // pass, drop, wait, native, stack, encapsulate or decapsulate
	Reason  string      // of a drop (docs/counters.md) or of waiting
	Steps   []TraceStep // in their order
	Packet  []byte      // as it leaves, from the IP header on; nil where it does not
}

// TraceStep is one question that was asked about the packet, and its answer.
type TraceStep struct {
	Name   string // source, destination, database, map-cache, locator, layer, route, lisp-header, marking, list, verdict
	Answer string
}

// The verdicts of a Trace.
const (
	VerdictPass        = "pass"
	VerdictDrop        = "drop"
	VerdictWait        = "wait"
	VerdictNative      = "native"
	VerdictStack       = "stack"
	VerdictEncapsulate = "encapsulate"
	VerdictDecapsulate = "decapsulate"
)

// tell makes the Trace of the last run. Where several steps are verdicts, the last
// one counts, but for a packet that was decapsulated and then handed to the stack.
func (t *Tracer) tell(program string, out []byte) (Trace, error) {
	steps, err := t.read()
	if err != nil {
		return Trace{}, err
	}
	trace := Trace{Program: strings.ReplaceAll(program, "_", "-"), Verdict: VerdictPass}
	for _, s := range steps {
		step := t.step(&s)
		if step.Name == "" {
			trace.Verdict, trace.Reason = verdictOf(&s)
			continue
		}
		trace.Steps = append(trace.Steps, step)
	}
	trace.Steps = append(trace.Steps, TraceStep{"verdict", strings.TrimSpace(trace.Verdict + " " + trace.Reason)})
	switch trace.Verdict {
	case VerdictEncapsulate, VerdictDecapsulate, VerdictStack:
		trace.Packet = out[min(etherOctets, len(out)):]
	}
	return trace, nil
}

// verdictOf reads a step that is a verdict.
func verdictOf(s *abi.Step) (verdict, reason string) {
	switch abi.StepKind(s.Kind) {
	case abi.StepWait:
		return VerdictWait, waitReason(s)
	case abi.StepNative:
		return VerdictNative, ""
	case abi.StepStack:
		return VerdictStack, ""
	case abi.StepEncapsulated:
		return VerdictEncapsulate, ""
	case abi.StepDecapsulated:
		return VerdictDecapsulate, ""
	case abi.StepDrop:
		return VerdictDrop, forward.DropReason(s.A).String()
	}
	return VerdictPass, fmt.Sprintf("(step %d is unknown)", s.Kind)
}

func waitReason(s *abi.Step) string {
	switch abi.TAPReason(s.A) {
	case abi.TAPReasonMiss:
		return "miss"
	case abi.TAPReasonHold:
		return "hold"
	case abi.TAPReasonTooBig:
		return fmt.Sprintf("too-big: %d octets would fit", s.B)
	case abi.TAPReasonRLOC:
		return "miss of the RLOC, or hold: it may be an EID"
	case abi.TAPReasonSegment:
		return "segment: a GSO packet gets two layers, or an outer checksum"
	case abi.TAPReasonChecksum:
		return "checksum: user space computes that of the outer UDP header"
	}
	return fmt.Sprintf("reason %d", s.A)
}

// step puts a step into words; one without a name is a verdict.
func (t *Tracer) step(s *abi.Step) TraceStep {
	yes := s.A != 0
	switch abi.StepKind(s.Kind) {
	case abi.StepSource:
		return TraceStep{"source", either(yes, "an EID of this site", "no EID of this site")}
	case abi.StepWithinSite:
		return TraceStep{"destination", either(yes, "an EID of this site as well", "no EID of this site")}
	case abi.StepMapping:
		return TraceStep{either(uint8(s.A) == abi.RootDatabase, "database", "map-cache"), t.mapping(s)}
	case abi.StepLocator:
		return TraceStep{"locator", t.locator(s)}
	case abi.StepBinding:
		return TraceStep{"locator", t.boundLocator(s)}
	case abi.StepOnPath:
		return TraceStep{"locator", t.locatorOnPath(s)}
	case abi.StepRoute:
		return TraceStep{"route", routeAnswer(s)}
	case abi.StepLISPHeader:
		return TraceStep{"lisp-header", fmt.Sprintf("flags %s, Instance-ID %d", headerFlags(uint8(s.A)), s.B)}
	case abi.StepList:
		return listStep(s)
	case abi.StepLayer:
		return TraceStep{"layer", either(s.A == 1, "with two layers allowed, the RLOC is looked up as an EID", "a second one is inside, for this router as well")}
	case abi.StepMarking:
		return TraceStep{"marking", fmt.Sprintf("DSCP %d, ECN %d, TTL %d", s.A>>2, s.A&3, s.B)}
	}
	return TraceStep{}
}

// listStep tells what a list, or the policy of a role, says of an address.
func listStep(s *abi.Step) TraceStep {
	entry := abi.ListEntry(s.B)
	if s.A < uint32(abi.ListRTR) {
		return TraceStep{"list", listName(s.A) + either(entry == abi.ListDenies, ": denied", ": permitted")}
	}
	said := map[abi.ListEntry]string{abi.ListPermits: "named", abi.ListDenies: "not named"}[entry]
	return TraceStep{"policy", policyNames[s.A] + ": " + cmp.Or(said, "none for this Instance-ID")}
}

// policyNames are the policies by their kinds, as configuration names them.
var policyNames = map[uint32]string{
	uint32(abi.ListRTR): "rtr", uint32(abi.ListPITR): "pitr", uint32(abi.ListPITRSource): "pitr sources", uint32(abi.ListPETR): "petr",
}

// listName names a kind of list as configuration does.
func listName(kind uint32) string {
	address := [...]string{"inner source", "inner destination", "outer source", "outer destination"}[kind&3]
	return address + either(kind&uint32(abi.ListDecapsulated) != 0, " of packets from the core", " of packets towards it")
}

func either(condition bool, yes, no string) string {
	if condition {
		return yes
	}
	return no
}

// mapping describes an entry of either table.
func (t *Tracer) mapping(s *abi.Step) string {
	if s.B == 0 {
		return "nothing covers it"
	}
	var record abi.Mapping
	if err := t.store.Map(abi.MapMappings).Lookup(s.C, &record); err != nil {
		return fmt.Sprintf("entry %d: %v", s.C, err)
	}
	key := tables.KeyOf(&record)
	prefix, err := key.Prefix()
	if err != nil {
		return fmt.Sprintf("entry %d: %v", s.C, err)
	}
	text := prefix.String()
	switch {
	case record.Flags&abi.MappingDatabase != 0:
		return text
	case record.LocatorSet == abi.NoLocatorSet:
		text += ", negative: " + lisp.Action(record.Action).String()
	case record.Flags&abi.MappingHold != 0:
		text += ", on hold while packets that waited are sent"
	}
	return text + either(record.Flags&abi.MappingStatic != 0, ", static", "")
}

// locator describes the locator that the packet's flow has by its hash.
func (t *Tracer) locator(s *abi.Step) string {
	return t.locatorBy(s, fmt.Sprintf("flow hash %#08x", s.C))
}

// boundLocator describes the locator that the packet's flow is bound to; the hash chooses where it has none.
func (t *Tracer) boundLocator(s *abi.Step) string {
	if s.B == forward.NoBucket {
		return "the flow is bound to a path that is not in the mapping, or cannot be used"
	}
	return t.locatorBy(s, "the binding of its flow")
}

// locatorOnPath describes the path that a relayed packet is on; the flow decides where it cannot be told.
func (t *Tracer) locatorOnPath(s *abi.Step) string {
	by := "the outer source"
	if s.C != 0 {
		by = fmt.Sprintf("the number of the path, %d", s.C)
	}
	if s.B == forward.NoBucket {
		return by + " names no path of the mapping that can be used here"
	}
	return t.locatorBy(s, by)
}

// locatorBy describes a locator of a set, and by what it was chosen.
func (t *Tracer) locatorBy(s *abi.Step, by string) string {
	var set abi.LocatorSet
	if err := t.store.Map(abi.MapLocatorSets).Lookup(s.A, &set); err != nil {
		return fmt.Sprintf("locator-set %d: %v", s.A, err)
	}
	if s.B >= set.Count {
		return "none of " + fmt.Sprint(set.Count) + " is usable, " + by
	}
	var record abi.Locator
	if err := t.store.Map(abi.MapLocators).Lookup(set.First+s.B, &record); err != nil {
		return fmt.Sprintf("locator %d of set %d: %v", s.B, s.A, err)
	}
	return fmt.Sprintf("%s by %s, from %s", tables.DecodeLocator(&record), by,
		abi.Addr(record.Family, record.Source))
}

// routeAnswers are the answers of bpf_fib_lookup, BPF_FIB_LKUP_RET_*.
var routeAnswers = [...]string{
	"next hop known", "blackhole", "unreachable", "prohibited", "not forwarded: a local address, or no route",
	"forwarding is off there", "a tunnel of the kernel's own", "next hop has yet to be resolved", "too big for the path", "no source address",
}

// routeNoNeighbour is BPF_FIB_LKUP_RET_NO_NEIGH.
const routeNoNeighbour = 7

func routeAnswer(s *abi.Step) string {
	answer := fmt.Sprintf("answer %d", s.A)
	switch refused := int32(s.A); {
	case refused < 0:
		answer = "the kernel refuses: " + unix.Errno(-refused).Error()
	case s.A < uint32(len(routeAnswers)):
		answer = routeAnswers[s.A]
	}
	if s.A == 0 || s.A == routeNoNeighbour { // the others leave the interface as it was asked for
		answer += " by " + interfaceWord(s.B)
	}
	if s.C != 0 {
		answer += fmt.Sprintf(", MTU %d", s.C)
	}
	return answer
}

func interfaceWord(ifindex uint32) string {
	if link, err := net.InterfaceByIndex(int(ifindex)); err == nil {
		return link.Name
	}
	return fmt.Sprintf("interface %d", ifindex)
}

// headerFlags names the bits of the LISP header's first octet (RFC 9300 s.5.3).
func headerFlags(flags uint8) string {
	var set []string
	for i, name := range [...]string{"N", "L", "E", "V", "I", "P"} {
		if flags&(0x80>>i) != 0 {
			set = append(set, name)
		}
	}
	if len(set) == 0 {
		return "none"
	}
	return strings.Join(set, "")
}
