// SPDX-License-Identifier: Apache-2.0

package lispnat

// The same translation without Loci: rules of nftables as an operator writes them.

import (
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"loci/internal/testnet"
	"loci/lab/bench/testbed"
)

// addRules translates what leaves by the core link, EIDs and private addresses each to their pool.
func addRules(at *testnet.Namespace) error {
	return at.Do(func() error {
		conn, err := nftables.New()
		if err != nil {
			return err
		}
		table := conn.AddTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: "bench"})
		chain := conn.AddChain(&nftables.Chain{
			Name: "postrouting", Table: table, Type: nftables.ChainTypeNAT,
			Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource,
		})
		for from, pool := range map[netip.Prefix]netip.Prefix{eids.Sources: poolOfEIDs, private.Sources: poolOfPrivate} {
			conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: translation(from, pool)})
		}
		if err := conn.Flush(); err != nil {
			return fmt.Errorf("rules in %s: %w", at.Name(), err)
		}
		return nil
	})
}

// translation is `ip saddr FROM snat prefix to POOL`.
func translation(from, pool netip.Prefix) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.NFPROTO_IPV4}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 3}, // both are prefixes of three octets
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: from.Addr().AsSlice()[:3]},
		&expr.Immediate{Register: 1, Data: pool.Addr().AsSlice()},
		&expr.Immediate{Register: 2, Data: testbed.Nth(pool, 255).AsSlice()},
		&expr.NAT{Type: expr.NATTypeSourceNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1, RegAddrMax: 2, Prefix: true},
	}
}
