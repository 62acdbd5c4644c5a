// SPDX-License-Identifier: Apache-2.0

// The mapping system of these benches: a Map-Server at a link of enc, the bench's ETR in dec's place, and the ITR's
// configuration.

package misses

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"loci/internal/testnet"
	"loci/lab/bench/testbed"
)

var (
	missEnc  = netip.MustParsePrefix("172.16.3.1/24")
	missMS   = netip.MustParsePrefix("172.16.3.2/24")
	missLink = "ms"
)

// buildMappingSystem hangs a Map-Server on enc, and puts the bench's ETR in the place of dec's daemon. It returns the
// namespace of the Map-Server.
func buildMappingSystem(ctx context.Context, b *testbed.Run, l *testbed.Line) (*testnet.Namespace, error) {
	ms, err := b.Network.Namespace(l.Arm.Key + "-ms")
	if err != nil {
		return nil, err
	}
	ends := [2]testnet.End{
		{Namespace: ms, Name: testbed.CoreLink, Addresses: []netip.Prefix{missMS}, MTU: testbed.LinkMTUOctets},
		{Namespace: l.Enc, Name: missLink, Addresses: []netip.Prefix{missEnc}, MTU: testbed.LinkMTUOctets},
	}
	err = errors.Join(testnet.Connect(ends[0], ends[1]),
		ms.AddRoute(testnet.Route{Destination: netip.MustParsePrefix("0.0.0.0/0"), Via: missEnc.Addr()}),
		l.Dec.AddRoute(testnet.Route{Destination: missMS.Masked(), Via: testbed.Core4Enc.Addr()}))
	if err != nil {
		return nil, err
	}
	e, err := newETR(l.Dec, testbed.Core4Dec.Addr(), missMS.Addr())
	if err != nil {
		return nil, err
	}
	l.Closers = append(l.Closers, e.close)
	if _, err := b.StartDaemon(ctx, ms, e.mapServerConfig()); err != nil {
		return nil, err
	}
	return ms, e.register(ctx)
}

func missITRConfig(sites ...string) string {
	var local strings.Builder
	for _, p := range testbed.Pairs {
		fmt.Fprintf(&local, "    - {eid: %q, rlocs: [{address: %q}]}\n", p.Sources, testbed.Core4Enc.Addr())
	}
	return "interfaces:\n  site: [" + strings.Join(sites, ", ") + "]\n  core: [" + testbed.CoreLink + "]\n" +
		"itr:\n  map-resolvers: [" + missMS.Addr().String() + "]\netr:\n  local-eids:\n" + local.String() + "control:\n"
}
