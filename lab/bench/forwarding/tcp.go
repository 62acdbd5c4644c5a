// SPDX-License-Identifier: Apache-2.0

// `loci bench tcp`: goodput of CUBIC flows through Enc and Dec (RFC 9438), measured where it arrives. The core link has the
// MTU of the sites; each arm finds the packet size that fits through it by path MTU discovery, as in the field.

package forwarding

import (
	"context"
	"errors"
	"fmt"
	"time"

	"loci/internal/testnet"
	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
)

// tcpCase is one kind of transfer.
type tcpCase struct {
	name      string
	pair      testbed.Pair
	flows     int
	segmented bool // no GSO and no TSO on the core link: every packet crosses it alone
}

var tcpCases = []tcpCase{
	{"ipv4/1-flow", testbed.Pairs[0], 1, false},
	{"ipv4/10-flows", testbed.Pairs[0], 10, false},
	{"ipv6/1-flow", testbed.Pairs[3], 1, false},
	{"ipv6/10-flows", testbed.Pairs[3], 10, false},
	{"ipv4/1-flow-no-offload", testbed.Pairs[0], 1, true},
}

// tcpRounds is the number of interleaved pairs that a ratio of TCP rates needs: single rounds vary by half.
const tcpRounds = 15

// TCP is the bench of goodput.
func TCP() testbed.Bench {
	k := testbed.Bench{
		Name: "tcp", Title: "goodput of TCP (CUBIC) through Enc and Dec, core MTU = site MTU = 1500",
		Rounds: tcpRounds, Length: testbed.DefaultMeasure, Arms: []testbed.Arm{testbed.Routing, testbed.VXLAN, testbed.LociTC}, Measure: measureTCP, Judge: judgeTCP,
		Prepare: warmUpTCP,
	}
	for _, c := range tcpCases {
		k.Cases = append(k.Cases, c.name)
	}
	return k
}

// warmUpTCP lets src learn the path MTU of each family before anything is measured, and proves once that what arrives is
// what was sent.
func warmUpTCP(_ *testbed.Run, l *testbed.Line) error {
	for _, c := range []tcpCase{tcpCases[0], tcpCases[2]} {
		transfer := transferOf(l, c)
		transfer.Octets, transfer.Verify = 4<<20, true
		if _, err := transfer.Run(context.Background()); err != nil {
			return err
		}
	}
	return nil
}

func transferOf(l *testbed.Line, c tcpCase) testnet.TCP {
	return testnet.TCP{Client: l.Src, Server: l.Dst, Source: c.pair.Source(), Destination: c.pair.Destination()}
}

func measureTCP(ctx context.Context, _ *testbed.Run, l *testbed.Line, caseName string, slot time.Duration) ([]report.Sample, error) {
	for _, c := range tcpCases {
		if c.name == caseName {
			rate, err := goodput(ctx, l, c, slot)
			return []report.Sample{report.Figure("goodput", "Mbit/s", rate/1e6)}, err
		}
	}
	return nil, fmt.Errorf("no case %q", caseName)
}

func goodput(ctx context.Context, l *testbed.Line, c tcpCase, length time.Duration) (rate float64, err error) {
	if c.segmented {
		if err := setCoreOffload(l, false); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, setCoreOffload(l, true)) }()
	}
	return testbed.Goodput(ctx, transferOf(l, c), c.flows, length)
}

func setCoreOffload(l *testbed.Line, on bool) error {
	return errors.Join(
		l.Enc.SetOffload(testbed.CoreLink, testnet.TSO, on), l.Enc.SetOffload(testbed.CoreLink, testnet.GSO, on),
		l.Dec.SetOffload(testbed.CoreLink, testnet.TSO, on), l.Dec.SetOffload(testbed.CoreLink, testnet.GSO, on),
	)
}

func judgeTCP(r *report.Report) {
	r.Compare("goodput", testbed.ArmTC, testbed.ArmRouting)
	r.Compare("goodput", testbed.ArmTC, testbed.ArmVXLAN)
	r.WantRatio("goodput", testbed.ArmTC, testbed.ArmRouting, report.AtLeast(0.98))
	r.WantRatio("goodput", testbed.ArmTC, testbed.ArmVXLAN, report.AtLeast(1.05))
}
