// SPDX-License-Identifier: Apache-2.0

// These tests hold together what is said twice: bpf/abi.h, its mirror, and the
// numbers and names of this package and of package forward.

package kernel

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/kerneltest"
	"loci/forward"
	"loci/lisp"
)

func TestConstantsAreThoseOfTheABI(t *testing.T) {
	kerneltest.ExpectConstants(t, map[string]uint64{
		"LISP_ABI_VERSION": abi.Version, "LISP_LOCATORS_MAX": lisp.MaxLocators, "LISP_BUCKETS": forward.BucketCount,
		"LISP_HEARD_ANEW": heardAnew, "LISP_BUCKET_NONE": forward.NoBucket, "LISP_ROOT_IN_USE": rootInUse, "LISP_NO_LOCATOR_SET": uint64(abi.NoLocatorSet),
		"LISP_ROOT_BLOCK_SHIFT": rootBlockShift, "LISP_ROOT_BLOCK_MASK": rootBlocks - 1, "LISP_ROOT_TABLE_SHIFT": rootTableShift,
		"LISP_LAST_USED_SHIFT": lastUsedShift, "LISP_UNREAD_SHARES": unreadShares, "LISP_UNREAD_OCTETS": unreadOctets,
		"LISP_ACTIONS": actionsEach, "LISP_FLOWS": flowsEach,
	})
	for action, want := range map[abi.Action]lisp.Action{
		abi.ActionNativelyForward: lisp.ActionNativelyForward,
		abi.ActionSendMapRequest:  lisp.ActionSendMapRequest,
		abi.ActionDrop:            lisp.ActionDrop,
	} {
		if uint8(action) != uint8(want) {
			t.Errorf("action %d is not %v", action, want)
		}
	}
}

// TestEveryDropReasonHasItsWord compares the programs' reasons with those of package
// forward, whose names counters have.
func TestEveryDropReasonHasItsWord(t *testing.T) {
	names := map[string]int{}
	for _, reason := range forward.DropReasons() {
		names[reason.String()] = int(reason)
	}
	count := 0
	for _, found := range regexp.MustCompile(`LISP_DROP_([A-Z_]+) = (\d+)`).FindAllStringSubmatch(kerneltest.ReadABI(t), -1) {
		number, _ := strconv.Atoi(found[2])
		if found[1] == "NONE" || found[1] == "MAX" {
			continue
		}
		count++
		if word := strings.ReplaceAll(strings.ToLower(found[1]), "_", "-"); names[word] != number {
			t.Errorf("reason %d is %q in abi.h, unknown to package forward", number, word)
		}
	}
	if count != len(names) {
		t.Errorf("%d reasons in abi.h, %d in package forward", count, len(names))
	}
	if wordHeldPackets < int(abi.DropMax) {
		t.Error("words of user space overlap the reasons")
	}
}

// TestEveryCounterIsShown finds counters of programs that nobody reads.
func TestEveryCounterIsShown(t *testing.T) {
	ownField := map[string]bool{"RELEASED": true, "NATIVE": true, "MISS": true, "EVENT_LOST": true, "MAX": true}
	for _, found := range regexp.MustCompile(`LISP_COUNTER_([A-Z_0-9]+) = (\d+)`).FindAllStringSubmatch(kerneltest.ReadABI(t), -1) {
		number, _ := strconv.Atoi(found[2])
		if _, ok := otherCounters[abi.CounterIndex(number)]; !ok && !ownField[found[1]] {
			t.Errorf("counter %s is not shown", found[1])
		}
	}
	if names := OtherCounterNames(); len(names) != len(otherCounters)+len(otherWords) {
		t.Errorf("%d names of %d counters", len(names), len(otherCounters))
	}
}

func TestRecordsStandSideBySide(t *testing.T) {
	for name, size := range map[string]uintptr{
		"mapping": unsafe.Sizeof(abi.Mapping{}), "locator-set": unsafe.Sizeof(abi.LocatorSet{}),
	} {
		if size%8 != 0 {
			t.Errorf("%s has %d octets, no multiple of 8: the kernel would pad it", name, size)
		}
	}
}

func TestBootClock(t *testing.T) {
	var offset uint64
	wall, boot := int64(1_700_000_000_000_000_000), int64(5_000_000_000)
	c := bootClock{offset: &offset, sample: func() (int64, int64, error) { return wall, boot, nil }}
	must(t, c.adjust())
	for _, when := range []time.Time{{}, time.Unix(1_700_000_000, 123), time.Unix(1, 0), time.Unix(0, wall-boot)} {
		got := c.fromBoot(c.toBoot(when))
		if d := got.Sub(when); d < 0 || d > 1 { // the moment of boot is 0, which is taken
			t.Errorf("%v came back as %v", when, got)
		}
	}
	stored := c.toBoot(time.Unix(1_700_000_000, 0))
	wall += int64(50 * time.Millisecond) // drift
	must(t, c.adjust())
	if got := c.fromBoot(stored); !got.Equal(time.Unix(1_700_000_000, 0)) {
		t.Errorf("a small drift moved the entry to %v", got)
	}
	wall += int64(time.Hour) // the clock was set
	must(t, c.adjust())
	if got := c.fromBoot(stored); got.Sub(time.Unix(1_700_003_600, 0)).Abs() > clockStep {
		t.Errorf("a step of an hour moved the entry to %v", got)
	}
}

func TestFinishChecksum(t *testing.T) {
	// 10.0.0.1 -> 10.0.0.2, UDP with 4 octets; the checksum field holds the sum of the pseudo-header, as a host leaves it.
	packet := []byte{
		0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
		0x10, 0x00, 0x20, 0x00, 0, 12, 0x14, 0x20, 1, 2, 3, 4,
	}
	f := append(make(frame, vnetOctets+ethernetOctets), packet...)
	f[0] = vnetNeedsChecksum
	*(*uint16)(unsafe.Pointer(&f[6])) = ethernetOctets + 20
	*(*uint16)(unsafe.Pointer(&f[8])) = 6
	h, err := forward.ParseHeader(f.packet())
	must(t, err)
	finishChecksum(f, &h)
	sum := uint32(0)
	pseudo := []byte{10, 0, 0, 1, 10, 0, 0, 2, 0, 17, 0, 12}
	for _, part := range [][]byte{pseudo, f.packet()[20:]} {
		for i := 0; i < len(part); i += 2 {
			sum += uint32(part[i])<<8 | uint32(part[i+1])
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	if sum != 0xffff || f[0] != 0 {
		t.Errorf("the finished checksum sums up to %#x, flags %d", sum, f[0])
	}
}

func TestMissesAreToldOnceAMoment(t *testing.T) {
	var lost uint64
	m := newMisses(&lost, func(uint32) string { return "site0" }, func(lisp.InstanceID) bool { return false })
	to := func(i byte) missed {
		return missed{destination: forward.Destination{EID: lisp.EIDFromAddr(siteAddress4(1, int(i)))}, source: lisp.EIDFromAddr(siteAddress4(0, 10))}
	}
	now := time.Unix(1000, 0)
	m.raise(now, to(1))
	if !m.raise(now.Add(missInterval/2), to(1)) {
		t.Error("an event told just before counts as lost")
	}
	m.raise(now, to(2))
	if len(m.events) != 2 {
		t.Errorf("%d events, want 2", len(m.events))
	}
	m.raise(now.Add(missInterval), to(1))
	if len(m.events) != 3 {
		t.Errorf("%d events after a while, want 3", len(m.events))
	}
	for i := range eventPlaces {
		m.raise(now, missed{destination: forward.Destination{Instance: lisp.InstanceID(i + 1), EID: to(1).destination.EID}})
	}
	if m.raise(now, missed{}) {
		t.Error("an event without room counts as told")
	}
	if len(m.events) != eventPlaces || lost != 4 {
		t.Errorf("%d events, %d lost, want %d and 4", len(m.events), lost, eventPlaces)
	}
	<-m.events
	m.raise(now, missed{destination: forward.Destination{Instance: eventPlaces, EID: to(1).destination.EID}})
	if len(m.events) != eventPlaces {
		t.Error("a lost event is not raised again with the next packet")
	}
}

func TestMomentStepped(t *testing.T) {
	began := moment{time.Unix(1_700_000_000, 0), time.Minute}
	for name, c := range map[string]struct {
		day, running time.Duration
		want         bool
	}{
		"no time":          {0, 0, false},
		"a millisecond":    {time.Millisecond, time.Millisecond, false},
		"an hour":          {time.Hour, time.Hour, false},
		"drift":            {time.Hour + clockStep/2, time.Hour, false},
		"set forwards":     {time.Hour, time.Millisecond, true},
		"set backwards":    {-time.Hour, time.Millisecond, true},
		"never looked yet": {0, 0, true},
	} {
		earlier := began
		if name == "never looked yet" {
			earlier = moment{}
		}
		if got := (moment{began.day.Add(c.day), began.running + c.running}).stepped(earlier); got != c.want {
			t.Errorf("%s: stepped is %v", name, got)
		}
	}
}
