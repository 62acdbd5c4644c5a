// SPDX-License-Identifier: Apache-2.0

package simplenat

// The Map-Server's side, and a Map-Resolver's: where an Info-Request came from, and which RTRs there are (s.4).

import (
	"loci/control/internal/counter"
	"loci/control/internal/message"
	"loci/control/internal/settings"
	"loci/control/internal/system"
	"loci/lisp"
	"loci/wire"
)

// Server answers Info-Requests.
type Server struct {
	h    *system.System
	rtrs []wire.Address
}

// NewServer makes one without RTRs.
func NewServer(h *system.System) *Server { return &Server{h: h} }

// Configure takes over other RTRs; nil where this is no Map-Server.
func (s *Server) Configure(c *settings.MapServerConfig) {
	s.rtrs = nil
	if c == nil {
		return
	}
	for _, r := range c.RTRs {
		if r.Address.Is4() {
			s.rtrs = append(s.rtrs, wire.RLOCAddress(lisp.RLOCFromAddr(r.Address)))
		}
	}
}

// HandleInfoRequest answers an Info-Request in the form that it came in.
func (s *Server) HandleInfoRequest(m *message.NamedInfoRequest) {
	if !s.h.MayReplyToInfo(m.From.Addr()) {
		return
	}
	payload, err := infoReplyTo(m, m.IsDraft, s.rtrs).AppendTo(s.h.Buffer(system.UsualECMOctets))
	if err != nil {
		s.h.Count(counter.RefusedEncoding)
		return
	}
	s.h.Send(s.h.AnswerFrom(m.Local), m.From, s.h.Used(payload))
	s.h.Count(counter.InfoReplySent)
}

// infoReplyTo answers an Info-Request, with or without what its source looks like.
func infoReplyTo(m *message.NamedInfoRequest, blind bool, rtrs []wire.Address) *wire.InfoReply {
	reply := &wire.InfoReply{InfoRequest: wire.InfoRequest{Nonce: m.Nonce, EID: wire.NoAddress{}}}
	nat := &wire.NATTraversalLCAF{
		GlobalETR: wire.NoAddress{}, MapServer: wire.NoAddress{}, PrivateETR: wire.NoAddress{}, RTRs: rtrs,
	}
	reply.NAT = nat
	if !blind {
		nat.GlobalETR, nat.ETRPort = wire.RLOCAddress(lisp.RLOCFromAddr(m.From.Addr())), m.From.Port()
	}
	switch {
	case m.IsDraft:
		reply.EID = m.Name
		return reply
	case m.Name != "":
		nat.PrivateETR = m.Name
	}
	if len(rtrs) == 0 {
		nat.RTRs = []wire.Address{wire.NoAddress{}}
	}
	return reply
}
