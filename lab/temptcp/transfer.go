// SPDX-License-Identifier: Apache-2.0

package temptcp

// One transfer, and what its subflows were like.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"loci/daemon/api"
	"loci/internal/jsondoc"
	"loci/internal/testnet"
	"loci/lab"
)

const (
	mostSubflows = "8"
	// firstPort is the first one that servers signal: each subflow beyond the first one of a connection needs
	// another.
	firstPort = 5100
	lastPort  = 30000 // the kernel takes those beyond for clients

	sampleInterval = 200 * time.Millisecond
	joinWait       = 15 * time.Second // of the first transfers, until all subflows are there
	closeWait      = 10 * time.Second
)

// prepareHosts has hosts take part in connections of several subflows.
func (r *run) prepareHosts(ctx context.Context) error {
	for _, site := range append(r.p.siteNames(), r.p.Destination) {
		host := r.Nodes[hostOf(site)]
		if err := host.SetSysctl("net.mptcp.enabled", "1"); err != nil {
			return fmt.Errorf("Multipath TCP: %w", err)
		}
		// A port that was signalled and not heard of is signalled again after that many seconds.
		if err := host.SetSysctl("net.mptcp.add_addr_timeout", "1"); err != nil {
			return err
		}
		if err := lab.MPTCP(ctx, host, "limits", "set", "subflow", mostSubflows, "add_addr_accepted",
			mostSubflows); err != nil {
			return err
		}
	}
	if err := r.routeByEID(); err != nil {
		return err
	}
	name, err := r.Nodes[hostOf(r.p.Destination)].Sysctl("net.mptcp.scheduler")
	r.document.Scheduler = schedulerText(name)
	return err
}

// routeByEID gives all subflows of a connection the source of the first one: for each further one, the kernel asks the
// routes.
func (r *run) routeByEID() error {
	for _, s := range r.p.Sources {
		for paths := range mostPaths + 1 {
			from, to := r.p.eids(s.Site, paths)
			err := r.Nodes[hostOf(s.Site)].AddRoute(testnet.Route{Destination: netip.PrefixFrom(to,
				to.BitLen()),
				Via: r.p.gateway(s.Site), Source: from})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// schedulerText names the kernel's scheduler. The paper's takes the least RTT.
func schedulerText(name string) string {
	if name == "default" {
		return "default: Linux's own, which takes the subflow that would send what it has soonest; not the least RTT"
	}
	return name
}

// warmUp has all mappings known everywhere: one short transfer over each set of paths.
func (r *run) warmUp(ctx context.Context) error {
	for _, s := range r.plan.Sources {
		for _, m := range r.plan.Modes {
			if m.kind == modeStateful { // as stateless
				continue
			}
			a := arm{s, m, r.plan.Buffers[0]}
			if err := r.warm(ctx, a); err != nil {
				return fmt.Errorf("first transfer of %s: %w", a, err)
			}
		}
	}
	return nil
}

func (r *run) warm(ctx context.Context, a arm) error {
	c, err := r.open(ctx, a)
	if err != nil {
		return err
	}
	joined := 0
	waiting, cancel := context.WithTimeout(ctx, joinWait)
	defer cancel()
	err = lab.Poll(waiting, r.Started, func() (bool, error) {
		found, err := socketsTo(c.client, r.to(a))
		joined = len(found)
		return joined == a.mode.subflows(), err
	})
	if err != nil {
		err = fmt.Errorf("%d of %d subflows: %w", joined, a.mode.subflows(), err)
	}
	return errors.Join(err, r.close(ctx, a, c))
}

// to is the EID to which an arm sends.
func (r *run) to(a arm) netip.Addr {
	_, to := r.p.eids(a.source.Site, a.mode.paths)
	return to
}

// open has the server signal the ports that an arm needs, and connects.
func (r *run) open(ctx context.Context, a arm) (*connection, error) {
	from, to := r.p.eids(a.source.Site, a.mode.paths)
	e := ends{
		client: r.Nodes[hostOf(a.source.Site)], server: r.Nodes[hostOf(r.p.Destination)], source: from,
		destination: to,
		sendBuffer:  r.p.SendBuffer, receiveBuffer: a.buffer, congestionControl: r.p.CongestionControl,
	}
	if err := lab.MPTCP(ctx, e.server, "endpoint", "flush"); err != nil {
		return nil, err
	}
	for range a.mode.subflows() - 1 {
		// a new one each time: the kernel keeps an old one for a while
		port := firstPort + r.ports%(lastPort-firstPort)
		r.ports++
		if err := lab.MPTCP(ctx, e.server, "endpoint", "add", to.String(), "port", fmt.Sprint(port),
			"signal"); err != nil {
			return nil, err
		}
	}
	r.watch.forget()
	return e.open(ctx)
}

// close waits until nothing of the connection is left that would disturb the next one.
func (r *run) close(ctx context.Context, a arm, c *connection) error {
	c.close()
	waiting, cancel := context.WithTimeout(ctx, closeWait)
	defer cancel()
	err := lab.Poll(waiting, r.Started, func() (bool, error) {
		left, err := socketsTo(c.client, r.to(a))
		return len(left) == 0, err
	})
	if err != nil {
		return fmt.Errorf("the connection does not end: %w", err)
	}
	return nil
}

// arm measures one transfer, and looks where its subflows were.
func (r *run) arm(ctx context.Context, a arm, round int, swept *time.Duration) error {
	c, err := r.open(ctx, a)
	if err != nil {
		return err
	}
	t := Transfer{Source: a.source.Site, Mode: a.mode.String(), Buffer: a.buffer, Round: round,
		Wanted: a.mode.subflows()}
	if swept != nil {
		s := jsondoc.SecondsOf(*swept)
		t.Swept = &s
	}
	if err = r.follow(ctx, a, c, &t); err == nil && a.mode.paths > 0 {
		for _, s := range t.Subflows {
			if text := r.watch.deviation(s.flow, s.By, s.Back); text != "" {
				r.document.Deviations = append(r.document.Deviations,
					fmt.Sprintf("%s, round %d: %s", a, round, text))
				r.screen.Line("%s", text)
			}
		}
	}
	if err := errors.Join(err, r.close(ctx, a, c)); err != nil {
		return err
	}
	r.document.Transfers = append(r.document.Transfers, t)
	r.screen.Line("round %d  %-22s %s", round, a, t.text())
	return nil
}

// follow samples the subflows of a transfer until its end.
func (r *run) follow(ctx context.Context, a arm, c *connection, t *Transfer) error {
	found := map[flow]*sampled{}
	for end := c.began.Add(r.plan.Lasts); ; {
		if err := lab.Sleep(ctx, min(sampleInterval, time.Until(end))); err != nil {
			return err
		}
		states, err := socketsTo(c.client, r.to(a))
		if err != nil {
			return err
		}
		for f, s := range states {
			if found[f] == nil {
				found[f] = &sampled{}
			}
			found[f].add(s)
		}
		if !time.Now().Before(end) {
			break
		}
	}
	t.Goodput = float64(c.arrived.Load()) * 8 / time.Since(c.began).Seconds()
	forth, err := r.paths(ctx, a.source.Site)
	if err != nil {
		return err
	}
	back, err := r.paths(ctx, r.p.Destination)
	if err != nil {
		return err
	}
	for f, s := range found {
		o := s.subflow(f)
		if a.mode.paths == 1 {
			o.By, o.Back = a.source.Paths[0], a.source.Paths[0]
		}
		if a.mode.paths > 1 {
			o.By, o.Back = forth[f], back[flow{f.server, f.client}]
		}
		o.Number = slices.Index(a.source.Paths, o.By) + 1
		t.Subflows = append(t.Subflows, o)
	}
	t.finish()
	return nil
}

// paths are those to which the router of a site has bound subflows, by the site of their RTR.
func (r *run) paths(ctx context.Context, site string) (map[flow]string, error) {
	list, err := r.Daemons[xtrOf(site)].Client.Subflows(ctx)
	if err != nil {
		return nil, err
	}
	all := map[flow]string{}
	for _, s := range list {
		if by := r.p.siteOfRTR(firstHop(&s)); s.InForce && by != "" {
			all[flow{netip.AddrPortFrom(s.Source.Addr(), s.SourcePort),
				netip.AddrPortFrom(s.Destination.Addr(), s.DestinationPort)}] = by
		}
	}
	return all, nil
}

func firstHop(s *api.Subflow) netip.Addr {
	if len(s.Path) == 0 {
		return netip.Addr{}
	}
	return s.Path[0].RLOC.Addr()
}

// sampled is what was seen of a subflow.
type sampled struct {
	sum     time.Duration // of the RTTs
	samples int
	last    subflowState
}

func (s *sampled) add(now subflowState) {
	s.last = now
	if now.rtt > 0 {
		s.sum += now.rtt
		s.samples++
	}
}

func (s *sampled) subflow(f flow) Subflow {
	o := Subflow{flow: f, Acked: s.last.acked}
	if s.samples > 0 {
		o.RTT = jsondoc.SecondsOf(s.sum / time.Duration(s.samples))
	}
	if s.last.sent > 0 {
		o.Loss = float64(s.last.repeated) / float64(s.last.sent)
	}
	return o
}

// finish puts the subflows in order, and computes their shares. Without RTRs the first is that of the first port.
func (t *Transfer) finish() {
	slices.SortFunc(t.Subflows, func(a, b Subflow) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.flow.server.Port(), b.flow.server.Port()))
	})
	sum := uint64(0)
	for _, s := range t.Subflows {
		sum += s.Acked
	}
	for i := range t.Subflows {
		if t.Subflows[i].Number == 0 {
			t.Subflows[i].Number = i + 1
		}
		if sum > 0 {
			t.Subflows[i].Share = float64(t.Subflows[i].Acked) / float64(sum)
		}
	}
}

// text is one line for people.
func (t *Transfer) text() string {
	line := fmt.Sprintf("%5.1f Mbit/s ", t.Goodput/1e6)
	if t.Swept != nil {
		line = fmt.Sprintf("apart %3.0f ms  ", t.Swept.Milliseconds()) + line
	}
	for _, s := range t.Subflows {
		line += fmt.Sprintf("  %d: %3.0f %% %3.0f ms", s.Number, 100*s.Share, s.RTT.Milliseconds())
	}
	if len(t.Subflows) < t.Wanted {
		line += fmt.Sprintf("  (%d of %d subflows)", len(t.Subflows), t.Wanted)
	}
	return line
}
