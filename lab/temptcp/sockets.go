// SPDX-License-Identifier: Apache-2.0

package temptcp

// What the kernel of a client knows of its subflows: each is a TCP socket (sock_diag(7)).

import (
	"errors"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/internal/testnet"
)

// subflowState is that of one subflow at one moment.
type subflowState struct {
	rtt            time.Duration // smoothed
	acked          uint64        // octets
	sent, repeated uint32        // segments with data, and those that were sent again
}

// established is TCP_ESTABLISHED of tcp_states.h.
const established = 1

// socketsTo are the subflows of a client to an address that are established.
func socketsTo(client *testnet.Namespace, to netip.Addr) (map[flow]subflowState, error) {
	all := map[flow]subflowState{}
	err := client.Do(func() error {
		found, err := netlink.SocketDiagTCPInfo(unix.AF_INET)
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
			return err
		}
		for _, s := range found {
			f := flow{addrPort(s.InetDiagMsg.ID.Source, s.InetDiagMsg.ID.SourcePort),
				addrPort(s.InetDiagMsg.ID.Destination, s.InetDiagMsg.ID.DestinationPort)}
			if s.TCPInfo == nil || s.InetDiagMsg.State != established || f.server.Addr() != to {
				continue
			}
			all[f] = subflowState{
				rtt: time.Duration(s.TCPInfo.Rtt) * time.Microsecond, acked: s.TCPInfo.Bytes_acked,
				sent: s.TCPInfo.Data_segs_out, repeated: s.TCPInfo.Total_retrans,
			}
		}
		return nil
	})
	return all, err
}

func addrPort(ip []byte, port uint16) netip.AddrPort {
	a, _ := netip.AddrFromSlice(ip) // the zero one matches nothing
	return netip.AddrPortFrom(a.Unmap(), port)
}
