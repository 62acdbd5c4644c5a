// SPDX-License-Identifier: Apache-2.0

package testnet

// Packets that a router loses on purpose: those of a port, or large ones, on their way through a namespace.

import (
	"encoding/binary"
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Drop says which forwarded UDP packets are lost, of both families.
type Drop struct {
	Port   uint16 // to it, or from it; 0 for any
	In     string // interface by which they come; empty for any
	Out    string // interface by which they leave; empty for any
	Larger int    // those of more octets, with the IP header; 0 for all
}

// dropTable is the nftables table of what is dropped under a name.
func dropTable(name string) *nftables.Table {
	return &nftables.Table{Family: nftables.TableFamilyINet, Name: "loci-test-drop-" + name}
}

// DropForwarded drops what one of the rules says, until PassForwarded with that name, or the end of the namespace.
func (ns *Namespace) DropForwarded(name string, drops ...Drop) error {
	conn, err := nftables.New(nftables.WithNetNSFd(int(ns.file.Fd())))
	if err != nil {
		return fmt.Errorf("testnet: drops in %s: %w", ns.name, err)
	}
	table := conn.AddTable(dropTable(name))
	chain := conn.AddChain(&nftables.Chain{
		Name: "forward", Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter,
	})
	for _, d := range drops {
		offsets := []uint32{0, 2} // of the source port and the destination port in the UDP header
		if d.Port == 0 {
			offsets = offsets[:1]
		}
		for _, offset := range offsets {
			conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: d.match(offset)})
		}
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("testnet: drops in %s: %w", ns.name, err)
	}
	return nil
}

// match is one nftables rule, which looks at the port at an offset of the UDP header.
func (d Drop) match(offset uint32) (list []expr.Any) {
	for key, name := range map[expr.MetaKey]string{expr.MetaKeyIIFNAME: d.In, expr.MetaKeyOIFNAME: d.Out} {
		if name != "" {
			padded := make([]byte, unix.IFNAMSIZ)
			copy(padded, name)
			list = append(list, &expr.Meta{Key: key, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: padded})
		}
	}
	if d.Larger > 0 {
		list = append(list, &expr.Meta{Key: expr.MetaKeyLEN, Register: 1},
			&expr.Byteorder{SourceRegister: 1, DestRegister: 1, Op: expr.ByteorderHton, Len: 4, Size: 4},
			&expr.Cmp{Op: expr.CmpOpGt, Register: 1, Data: binaryutil.BigEndian.PutUint32(uint32(d.Larger))})
	}
	list = append(list, &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_UDP}})
	if d.Port > 0 {
		list = append(list, &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: 2},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.BigEndian.AppendUint16(nil, d.Port)})
	}
	return append(list, &expr.Verdict{Kind: expr.VerdictDrop})
}

// PassForwarded ends DropForwarded of a name.
func (ns *Namespace) PassForwarded(name string) error {
	conn, err := nftables.New(nftables.WithNetNSFd(int(ns.file.Fd())))
	if err == nil {
		conn.DelTable(dropTable(name))
		err = conn.Flush()
	}
	if err != nil {
		return fmt.Errorf("testnet: drops in %s: %w", ns.name, err)
	}
	return nil
}
