// SPDX-License-Identifier: Apache-2.0

// This file finds what a host's administrator put in the way of forwarded packets
// (nftables, the `forward` hook of iptables): fast forwarding passes it by. It reads
// the network namespace of the calling thread and changes nothing.

package features

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"loci/internal/genetlink"
)

// Of linux/netfilter/nf_tables.h and linux/netfilter.h, as far as our libraries do not have it.
const (
	nfnlGeneric     = 4 // octets of struct nfgenmsg
	hookForward     = 2 // NF_INET_FORWARD
	verdictAccept   = 1 // NF_ACCEPT
	nestedAttribute = 0x3FFF
)

// A forwardChain is a chain of nftables that forwarded packets pass.
type forwardChain struct {
	family, table, name string
	uses                uint32 // by rules, among others
	policy              uint32 // the verdict when no rule has one
}

// ForwardRules names the chains and tables whose rules forwarded packets pass, none
// when everything passes: chains at the forward hook that have rules or a policy other
// than accept, and tables of iptables-legacy.
func ForwardRules() ([]string, error) {
	chains, err := forwardChains()
	if err != nil {
		return nil, err
	}
	var found []string
	for _, c := range chains {
		if c.uses > 0 || c.policy != verdictAccept {
			found = append(found, fmt.Sprintf("nftables chain %s %s %s", c.family, c.table, c.name))
		}
	}
	for _, legacy := range []struct{ file, program string }{
		{"/proc/net/ip_tables_names", "iptables"}, {"/proc/net/ip6_tables_names", "ip6tables"},
	} {
		tables, err := os.ReadFile(legacy.file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("tables of %s: %w", legacy.program, err)
		}
		for _, table := range strings.Fields(string(tables)) {
			if table == "filter" || table == "mangle" {
				found = append(found, fmt.Sprintf("table %s of %s", table, legacy.program))
			}
		}
	}
	return found, nil
}

// forwardChains asks for all chains; none where the kernel has no nftables.
func forwardChains() ([]forwardChain, error) {
	request := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETCHAIN, unix.NLM_F_DUMP)
	request.AddRawData([]byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, 0})
	answers, err := request.Execute(unix.NETLINK_NETFILTER, unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWCHAIN)
	if errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("chains of nftables: %w", err)
	}
	var chains []forwardChain
	for _, answer := range answers {
		chain, forwards, err := readChain(answer)
		if err != nil {
			return nil, err
		}
		if forwards {
			chains = append(chains, chain)
		}
	}
	return chains, nil
}

var netfilterFamilies = map[byte]string{unix.NFPROTO_INET: "inet", unix.NFPROTO_IPV4: "ip", unix.NFPROTO_IPV6: "ip6"}

// readChain reports whether the chain is one that forwarded IP packets pass.
func readChain(message []byte) (c forwardChain, forwards bool, err error) {
	if len(message) < nfnlGeneric {
		return c, false, fmt.Errorf("chain of nftables: %d octets", len(message))
	}
	family, known := netfilterFamilies[message[0]]
	c.family, c.policy = family, verdictAccept
	hooked := false
	err = genetlink.EachAttribute(message, nfnlGeneric, func(kind uint16, value []byte) {
		switch kind & nestedAttribute {
		case unix.NFTA_CHAIN_TABLE:
			c.table = nl.BytesToString(value)
		case unix.NFTA_CHAIN_NAME:
			c.name = nl.BytesToString(value)
		case unix.NFTA_CHAIN_USE:
			c.uses = bigEndian32(value)
		case unix.NFTA_CHAIN_POLICY:
			c.policy = bigEndian32(value)
		case unix.NFTA_CHAIN_HOOK:
			hooked = hookOf(value) == hookForward
		}
	})
	return c, known && hooked, err
}

// hookOf is the hook of a chain, -1 when there is none.
func hookOf(nested []byte) int {
	hook := -1
	_ = genetlink.EachAttribute(nested, 0, func(kind uint16, value []byte) {
		if kind&nestedAttribute == unix.NFTA_HOOK_HOOKNUM && len(value) == 4 {
			hook = int(bigEndian32(value))
		}
	})
	return hook
}

func bigEndian32(b []byte) uint32 {
	if len(b) != 4 {
		return 0
	}
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}
