// SPDX-License-Identifier: Apache-2.0

package diagnosis

// Info-Requests of `loci netcheck`: one socket asks all Map-Servers, each in the form of the protocol that it answered
// the daemon in, and in both forms where it has answered neither. Of draft-ermagan-lisp-nat-traversal answers are
// believed by nonce and key, of simple-nat, which has no key, by nonce and address.

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"loci/control"
	"loci/daemon/api"
	"loci/wire"
)

// natName is what the command calls itself in an Info-Request of simple-nat: not as the daemon, whose binding stays.
const natName = "loci-netcheck"

// natQuestion is an Info-Request: to which of the Map-Servers, and by which protocol.
type natQuestion struct {
	which    int
	protocol string
}

// natQuestions are the Info-Requests of all tries, by nonce.
type natQuestions map[uint64]natQuestion

// formsOf are the protocols by which a Map-Server is asked.
func formsOf(v *natView, to *NATServer) (list []string) {
	if v.daemon.Protocol != api.NATProtocolSimple && len(to.Keys) > 0 {
		list = append(list, api.NATProtocolErmagan)
	}
	isAsked := v.daemon.Protocol == api.NATProtocolSimple || v.daemon.Protocol == api.NATProtocolAuto
	if isAsked && to.Address.Addr().Is4() {
		list = append(list, api.NATProtocolSimple)
	}
	return list
}

// askNAT sends Info-Requests from one socket to all Map-Servers that the daemon asks from this RLOC.
func (n *netcheck) askNAT(ctx context.Context, local netip.Addr, all []api.NATView,
	servers []NATServer) (views []natView) {
	var asked []NATServer
	for _, v := range all {
		if v.RLOC.Addr() != local {
			continue
		}
		view := natView{daemon: v, local: netip.AddrPortFrom(local, 0), why: "no Info-Reply"}
		view.server, _ = netip.ParseAddrPort(v.MapServer)
		server := NATServer{Address: view.server}
		if at := slices.IndexFunc(servers,
			func(s NATServer) bool { return s.Address == view.server }); at >= 0 {
			server = servers[at]
		}
		if len(formsOf(&view, &server)) == 0 {
			view.why = "the configuration file has no key for it any more"
		}
		views, asked = append(views, view), append(asked, server)
	}
	if err := exchangeInfo(ctx, views, asked, n.Timeout); err != nil {
		for i := range views {
			views[i].why = err.Error()
		}
	}
	return views
}

// exchangeInfo asks until each is answered, probeTries times at most.
func exchangeInfo(ctx context.Context, views []natView, asked []NATServer, timeout time.Duration) error {
	conn, err := controlSocket(views[0].local.Addr(), views[0].server)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	port := conn.LocalAddr().(*net.UDPAddr).AddrPort().Port()
	waiting := 0
	for i := range views {
		views[i].local = netip.AddrPortFrom(views[i].local.Addr(), port)
		if len(formsOf(&views[i], &asked[i])) > 0 {
			waiting++
		}
	}
	questions := natQuestions{}
	for try := 0; try < probeTries && waiting > 0 && ctx.Err() == nil; try++ {
		for i := range views {
			if !views[i].seen.IsValid() {
				questions.ask(conn, i, &views[i], &asked[i])
			}
		}
		if err := conn.SetReadDeadline(time.Now().Add(timeout)); err != nil {
			return err
		}
		waiting -= questions.hear(conn, views, asked, waiting)
	}
	return ctx.Err()
}

// ask sends one Map-Server its Info-Requests, as the daemon does.
func (q natQuestions) ask(conn *net.UDPConn, which int, v *natView, to *NATServer) {
	for _, protocol := range formsOf(v, to) {
		var chance [8]byte
		_, _ = rand.Read(chance[:])
		nonce := binary.BigEndian.Uint64(chance[:])
		request, err := infoRequest(protocol, nonce, to)
		if err == nil {
			q[nonce] = natQuestion{which, protocol}
			_, err = conn.WriteToUDPAddrPort(request, to.Address)
		}
		if err != nil {
			v.why = err.Error()
		}
	}
}

// infoRequest is an Info-Request in the form of a protocol.
func infoRequest(protocol string, nonce uint64, to *NATServer) ([]byte, error) {
	if protocol == api.NATProtocolSimple {
		m := wire.InfoRequest{Nonce: nonce, EID: wire.NoAddress{}, HostName: natName}
		return m.AppendTo(nil)
	}
	key := to.Keys[0]
	m := &wire.InfoRequest{
		Nonce: nonce, KeyID: key.ID, AlgorithmID: key.Algorithm,
		Authentication: make([]byte, key.MACOctets()), TTLMinutes: 1, MaskLen: uint8(to.Prefix.Bits()),
		EID: wire.AddressOf(to.Prefix),
	}
	return wire.AppendSigned(nil, m, key.Secret)
}

// hear takes answers until so many came, or the socket's deadline did. It returns how many.
func (q natQuestions) hear(conn *net.UDPConn, views []natView, asked []NATServer, wanted int) (came int) {
	buffer := make([]byte, maxDatagramOctets)
	for came < wanted {
		length, from, err := conn.ReadFromUDPAddrPort(buffer)
		var icmp syscall.Errno
		switch {
		case errors.As(err, &icmp): // an answer may come all the same
			continue
		case err != nil:
			return came
		}
		from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		if answered, seen, ok := q.seenIn(buffer[:length], from, asked); ok &&
			!views[answered.which].seen.IsValid() {
			views[answered.which].seen, views[answered.which].by = seen, answered.protocol
			came++
		}
	}
	return came
}

// seenIn is the address and port in an Info-Reply to one of these Info-Requests, and to which.
func (q natQuestions) seenIn(b []byte, from netip.AddrPort, servers []NATServer) (to natQuestion, seen netip.AddrPort,
	ok bool) {
	parsed, err := wire.Parse(b)
	m, isReply := parsed.(*wire.InfoReply)
	if err != nil || !isReply {
		return to, seen, false
	}
	to, known := q[m.Nonce]
	if !known || !isBelieved(b, m, from, to, &servers[to.which]) {
		return to, seen, false
	}
	lcaf, isNAT := m.NAT.(*wire.NATTraversalLCAF)
	if !isNAT {
		return to, seen, false
	}
	rloc, isRLOC := wire.RLOCOf(lcaf.GlobalETR)
	if a := rloc.Addr(); !isRLOC || rloc.Valid() != nil || a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() ||
		lcaf.ETRPort == 0 {
		return to, seen, false
	}
	return to, netip.AddrPortFrom(rloc.Addr(), lcaf.ETRPort), true
}

// isBelieved reports whether an Info-Reply is from the Map-Server that was asked.
func isBelieved(b []byte, m *wire.InfoReply, from netip.AddrPort, to natQuestion, server *NATServer) bool {
	if to.protocol == api.NATProtocolSimple {
		return from == server.Address
	}
	return slices.ContainsFunc(server.Keys, func(k control.Key) bool {
		return k.ID == m.KeyID && k.Algorithm == m.AlgorithmID && wire.Verify(b, k.Secret) == nil
	})
}
