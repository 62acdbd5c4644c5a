// SPDX-License-Identifier: Apache-2.0

package user

import (
	"errors"
	"strings"
	"testing"

	"loci/lab/bench/testbed"
)

// The highest rate is found from either side, to the precision, and never one that fails.
func TestHighest(t *testing.T) {
	for _, c := range []struct{ limit, from, growth float64 }{
		{1e6, 25e3, 2}, {3e3, 25e3, 2}, {26e3, 25e3, 1.15}, {24e3, 25e3, 1.15}, {300, 25e3, 2},
	} {
		steps := 0
		found, err := highest(c.from, c.growth, func(rate float64) (bool, error) {
			steps++
			return rate <= c.limit, nil
		})
		if err != nil || found > c.limit || found*precision < c.limit || steps > 20 {
			t.Errorf("%+v: %g, %v in %d steps", c, found, err, steps)
		}
	}
	if found, err := highest(25e3, 2, func(float64) (bool, error) { return false, nil }); found != 0 || err != nil {
		t.Errorf("where no rate works: %g, %v", found, err)
	}
	if _, err := highest(25e3, 2, func(float64) (bool, error) { return false, errors.ErrUnsupported }); err == nil {
		t.Error("an error is lost")
	}
}

// What is missing is named with its arm, and how to get it; arms that are not measured need nothing.
func TestMissingPrograms(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	absent := &Engine{Name: "absent", need: tool{"no-such-program", "install it"}}
	problems := Missing([]*Engine{{Name: "own"}, absent})
	if len(problems) != 1 || !strings.Contains(problems[0].String(), "no no-such-program, for the arm absent: install it") {
		t.Errorf("%+v", problems)
	}
	b := Bench()
	b.Cases = []string{"first-packet/ipv4"}
	for _, p := range b.Lacks([]string{armUserITR, armKernelITR, ArmUser}) {
		t.Errorf("%v", p)
	}
}

// Each case is measured by the arms that it compares.
func TestArmsOfCases(t *testing.T) {
	b := Bench()
	count := func(caseName string) (n int) {
		for _, a := range b.Arms {
			if b.Measures(a.Name, caseName) {
				n++
			}
		}
		return n
	}
	for name, want := range map[string]int{"tcp/ipv4": 8, "tcp/ipv6": 5, "tcp-8/ipv4": 2, "tcp-8/ipv6": 2, "udp-64/ipv4": 7, "echo/ipv6": 4, "first-packet/ipv4": 2, "allocations/ipv6": 1} {
		if got := count(name); got != want {
			t.Errorf("%s has %d arms, want %d", name, got, want)
		}
	}
}

func TestWireGuardSettings(t *testing.T) {
	enc := wireGuardSettings(sidesOf(&testbed.Line{})[0], pairs["ipv4"])
	dec := wireGuardSettings(sidesOf(&testbed.Line{})[1], pairs["ipv4"])
	for _, want := range []string{"set=1\n", "endpoint=172.16.0.2:51820\n", "allowed_ip=10.2.4.0/24\n", "\n\n"} {
		if !strings.Contains(enc, want) {
			t.Errorf("no %q in %q", want, enc)
		}
	}
	if enc == dec || strings.Count(enc, "key=") != 2 {
		t.Errorf("%q and %q", enc, dec)
	}
}
