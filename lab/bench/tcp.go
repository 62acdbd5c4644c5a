// SPDX-License-Identifier: Apache-2.0

// `loci bench tcp`: goodput of CUBIC flows through Enc and Dec (RFC 9438), measured where it arrives. The core link has the
// MTU of the sites; each arm finds the packet size that fits through it by path MTU discovery, as in the field.

package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"loci/internal/testnet"
)

// tcpCase is one kind of transfer.
type tcpCase struct {
	name      string
	pair      pair
	flows     int
	segmented bool // no GSO and no TSO on the core link: every packet crosses it alone
}

var tcpCases = []tcpCase{
	{"ipv4/1-flow", pairs[0], 1, false},
	{"ipv4/10-flows", pairs[0], 10, false},
	{"ipv6/1-flow", pairs[3], 1, false},
	{"ipv6/10-flows", pairs[3], 10, false},
	{"ipv4/1-flow-no-offload", pairs[0], 1, true},
}

// tcpRounds is the number of interleaved pairs that a ratio of TCP rates needs: single rounds vary by half.
const tcpRounds = 15

func tcpBench() kind {
	k := kind{
		name: "tcp", title: "goodput of TCP (CUBIC) through Enc and Dec, core MTU = site MTU = 1500",
		rounds: tcpRounds, length: defaultMeasure, arms: []arm{routing, vxlan, lociTC}, measure: measureTCP, judge: judgeTCP,
		prepare: warmUpTCP,
	}
	for _, c := range tcpCases {
		k.cases = append(k.cases, c.name)
	}
	return k
}

// warmUpTCP lets src learn the path MTU of each family before anything is measured, and proves once that what arrives is
// what was sent.
func warmUpTCP(_ *bench, l *line) error {
	for _, c := range []tcpCase{tcpCases[0], tcpCases[2]} {
		transfer := l.transfer(c)
		transfer.Octets, transfer.Verify = 4<<20, true
		if _, err := transfer.Run(context.Background()); err != nil {
			return err
		}
	}
	return nil
}

func (l *line) transfer(c tcpCase) testnet.TCP {
	return testnet.TCP{Client: l.src, Server: l.dst, Source: c.pair.source(), Destination: c.pair.destination()}
}

func measureTCP(ctx context.Context, _ *bench, l *line, caseName string, slot time.Duration) ([]sample, error) {
	for _, c := range tcpCases {
		if c.name == caseName {
			rate, err := l.goodput(ctx, c, slot)
			return []sample{{"goodput", "Mbit/s", rate / 1e6}}, err
		}
	}
	return nil, fmt.Errorf("no case %q", caseName)
}

func (l *line) goodput(ctx context.Context, c tcpCase, length time.Duration) (rate float64, err error) {
	if c.segmented {
		if err := l.setCoreOffload(false); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, l.setCoreOffload(true)) }()
	}
	type finished struct {
		result testnet.TCPResult
		err    error
	}
	all := make(chan finished, c.flows)
	for range c.flows {
		transfer := l.transfer(c)
		transfer.Duration = length
		go func() {
			result, err := transfer.Run(ctx)
			all <- finished{result, err}
		}()
	}
	for range c.flows {
		f := <-all
		rate += f.result.BitsPerSecond
		err = errors.Join(err, f.err)
	}
	return rate, err
}

func (l *line) setCoreOffload(on bool) error {
	return errors.Join(
		l.enc.SetOffload(coreLink, testnet.TSO, on), l.enc.SetOffload(coreLink, testnet.GSO, on),
		l.dec.SetOffload(coreLink, testnet.TSO, on), l.dec.SetOffload(coreLink, testnet.GSO, on),
	)
}

func judgeTCP(r *Report) {
	r.compare("goodput", armTC, armRouting)
	r.compare("goodput", armTC, armVXLAN)
	r.wantRatio("goodput", armTC, armRouting, atLeast(0.98))
	r.wantRatio("goodput", armTC, armVXLAN, atLeast(1.05))
}
