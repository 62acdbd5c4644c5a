// SPDX-License-Identifier: Apache-2.0

// A router that drops what it forwards to one UDP port or from it, by the kernel's nftables.

package testnet

import (
	"encoding/binary"
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// dropTable is the nftables table of what is dropped.
const dropTable = "loci-test-drop"

// DropForwardedUDP drops what is forwarded to a UDP port, or from it, of both families, until PassForwarded or the end of the
// namespace.
func (ns *Namespace) DropForwardedUDP(port uint16) error {
	conn, err := nftables.New(nftables.WithNetNSFd(int(ns.file.Fd())))
	if err != nil {
		return fmt.Errorf("testnet: drops in %s: %w", ns.name, err)
	}
	table := conn.AddTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: dropTable})
	chain := conn.AddChain(&nftables.Chain{
		Name: "forward", Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter,
	})
	for _, offset := range []uint32{0, 2} { // of the source port and the destination port in the UDP header
		conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_UDP}},
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: 2},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.BigEndian.AppendUint16(nil, port)},
			&expr.Verdict{Kind: expr.VerdictDrop},
		}})
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("testnet: drops in %s: %w", ns.name, err)
	}
	return nil
}

// PassForwarded ends DropForwardedUDP.
func (ns *Namespace) PassForwarded() error {
	conn, err := nftables.New(nftables.WithNetNSFd(int(ns.file.Fd())))
	if err == nil {
		conn.DelTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: dropTable})
		err = conn.Flush()
	}
	if err != nil {
		return fmt.Errorf("testnet: drops in %s: %w", ns.name, err)
	}
	return nil
}
