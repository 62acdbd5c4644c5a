// SPDX-License-Identifier: Apache-2.0

package temptcp

// The network, as the text of an experiment's file:
//
//	SITE-host - SITE-xtr -- SITE-site === SITE-isp --+
//	            SITE-rtr --/                         |
//	                                    RELAY-rtr ---+--- umkc-xtr - umkc-host
//
// xTR and RTR of a source share its access link, from SITE-site to SITE-isp. All sites meet on one emulated link, which
// has the RTT, rate and loss of each pair.

import (
	"fmt"
	"strings"

	"loci/lab/experiment"
)

// Nodes of a site.
func hostOf(site string) string   { return site + "-host" }
func xtrOf(site string) string    { return site + "-xtr" }
func rtrOf(site string) string    { return site + "-rtr" }
func routerOf(site string) string { return site + "-site" }
func ispOf(site string) string    { return site + "-isp" }

// core is the interface of each daemon towards the others.
const core = "core"

// Values of itr.mptcp.
const (
	bindingStateless = "stateless"
	bindingStateful  = "stateful"
)

// siteMTU leaves room for the headers of LISP, so that no packet is refused.
const siteMTU = 1400

// meetingPoint is the node of a site where all meet.
func (p *parameters) meetingPoint(site string) string {
	switch {
	case p.source(site) != nil:
		return ispOf(site)
	case site == p.Destination:
		return xtrOf(site)
	}
	return rtrOf(site)
}

// network is the file. The last emulated link is that on which all meet.
func (p *parameters) network() (*experiment.File, error) {
	w := &writer{p: p}
	w.line("name: %s\ndescription: %s\norigin: %q\nseed: %d", p.Name, p.Description, p.Origin, p.Seed)
	w.line("nodes:")
	w.nodes()
	w.line("links:")
	w.links()
	w.line("daemons:")
	w.daemons()
	return experiment.Parse([]byte(w.String()))
}

// writer writes the file.
type writer struct {
	strings.Builder
	p *parameters
}

func (w *writer) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

func (w *writer) nodes() {
	for _, s := range w.p.Sources {
		n := w.p.number(s.Site)
		w.node(xtrOf(s.Site), defaultRoute(fmt.Sprintf("172.16.%d.1", n)))
		w.node(rtrOf(s.Site), defaultRoute(fmt.Sprintf("172.17.%d.1", n)))
		w.node(routerOf(s.Site), defaultRoute(fmt.Sprintf("172.18.%d.1", n)))
		behind := fmt.Sprintf("172.18.%d.2", n)
		w.node(ispOf(s.Site), w.p.routesToSources(s.Site), route(16, n, behind), route(17, n, behind))
		w.host(s.Site)
	}
	for _, site := range w.p.Relays {
		w.node(rtrOf(site), w.p.routesToSources(site))
	}
	w.node(xtrOf(w.p.Destination), w.p.routesToSources(w.p.Destination))
	w.host(w.p.Destination)
}

func (w *writer) node(name string, routes ...string) {
	w.line("  - {name: %s, forwards: true, routes: [%s]}", name, strings.Join(routes, ", "))
}

func (w *writer) host(site string) {
	w.line("  - {name: %s, routes: [%s]}", hostOf(site), defaultRoute(w.p.gateway(site).String()))
}

func defaultRoute(via string) string { return fmt.Sprintf("{to: 0.0.0.0/0, via: %s}", via) }

func route(second, n int, via string) string {
	return fmt.Sprintf("{to: 172.%d.%d.0/24, via: %s}", second, n, via)
}

// routesToSources lead to xTR, RTR and access link of each source but one.
func (p *parameters) routesToSources(except string) string {
	var all []string
	for _, s := range p.Sources {
		for second := 16; second <= 18 && s.Site != except; second++ {
			all = append(all, route(second, p.number(s.Site), p.exchange(s.Site).String()))
		}
	}
	return strings.Join(all, ", ")
}

func (w *writer) links() {
	for _, s := range w.p.Sources {
		n, a := w.p.number(s.Site), w.p.access(s.Site)
		w.line("  - impair: {rate: %d, delay: %s, queue: %s}", a.Rate, a.Delay, a.Queue)
		w.ends(end(routerOf(s.Site), "isp", fmt.Sprintf("172.18.%d.2/24", n)),
			end(ispOf(s.Site), "access", fmt.Sprintf("172.18.%d.1/24", n)))
		w.line("  - mtu: 1500")
		w.ends(end(xtrOf(s.Site), core, fmt.Sprintf("172.16.%d.2/24", n)),
			end(routerOf(s.Site), "xtr", fmt.Sprintf("172.16.%d.1/24", n)))
		w.line("  - mtu: 1500")
		w.ends(end(rtrOf(s.Site), core, fmt.Sprintf("172.17.%d.2/24", n)),
			end(routerOf(s.Site), "rtr", fmt.Sprintf("172.17.%d.1/24", n)))
		w.siteLink(s.Site)
	}
	w.siteLink(w.p.Destination)
	var all []string
	for _, site := range w.p.sites() {
		all = append(all, end(w.p.meetingPoint(site), core, w.p.exchange(site).String()+"/24"))
	}
	w.line("  - impair: {}")
	w.ends(all...)
}

func end(node, name string, addresses ...string) string {
	return fmt.Sprintf("{node: %s, interface: %s, addresses: [%s]}", node, name, strings.Join(addresses, ", "))
}

func (w *writer) ends(ends ...string) { w.line("    ends: [%s]", strings.Join(ends, ", ")) }

// siteLink joins the host of a site, which has all EIDs, and its xTR.
func (w *writer) siteLink(site string) {
	var eids []string
	for _, s := range w.p.Sources {
		for paths := range mostPaths + 1 {
			from, to := w.p.eids(s.Site, paths)
			switch site {
			case s.Site:
				eids = append(eids, from.String()+"/16")
			case w.p.Destination:
				eids = append(eids, to.String()+"/16")
			}
		}
	}
	w.line("  - mtu: %d", siteMTU)
	w.ends(end(hostOf(site), "eth0", eids...), end(xtrOf(site), "site", w.p.gateway(site).String()+"/16"))
}

func (w *writer) daemons() {
	w.line("  - node: %s\n    registrations: %d\n    config: |", xtrOf(w.p.Destination),
		2*len(w.p.Sources)*(mostPaths+1))
	w.xtrConfig(w.p.Destination)
	w.line("      map-resolver: {}\n      map-server:\n        sites:")
	for _, site := range w.p.sites() {
		if site == w.p.Destination || w.p.source(site) != nil {
			w.line("          - {name: %s, authentication-keys: [{auth-key-value: %s}], eid-prefixes: "+
				"[{eid: 10.%d.0.0/16, more-specifics-accepted: true}]}", site, keyOf(site),
				w.p.number(site))
		}
	}
	for _, s := range w.p.Sources {
		w.line("  - node: %s\n    config: |", xtrOf(s.Site))
		w.xtrConfig(s.Site)
	}
	var eids []string
	for _, s := range w.p.Sources {
		eids = append(eids, fmt.Sprintf("10.%d.0.0/16", w.p.number(s.Site)))
	}
	eids = append(eids, w.p.destinationEIDs().String())
	for _, site := range w.p.withRTR() {
		w.line("  - node: %s\n    config: |\n      interfaces: {core: [%s]}\n      itr: {map-resolvers: [%s]}\n"+
			"      rtr: {relay: [{eid-prefixes: [%s]}]}", rtrOf(site), core, w.p.xtr(w.p.Destination),
			strings.Join(eids, ", "))
	}
}

func keyOf(site string) string { return "te-mptcp-" + site + "-0123456789" }

// xtrConfig registers each EID of a site with its paths, the first one's with the best priority, in the order in which
// the other direction has them.
func (w *writer) xtrConfig(site string) {
	w.line("      interfaces: {site: [site], core: [%s]}\n      locator-sets:", core)
	var eids []string
	for _, s := range w.p.Sources {
		if site != s.Site && site != w.p.Destination {
			continue
		}
		for paths := range mostPaths + 1 {
			from, to := w.p.eids(s.Site, paths)
			if site == s.Site {
				to = from
			}
			if paths == 0 {
				eids = append(eids, fmt.Sprintf("{eid: %s/32}", to))
				continue
			}
			name := fmt.Sprintf("%s-%d", s.Site, paths)
			eids = append(eids, fmt.Sprintf("{eid: %s/32, rlocs: %s}", to, name))
			w.line("        %s:", name)
			w.paths(s, paths, site)
		}
	}
	resolver := w.p.xtr(w.p.Destination)
	w.line("      itr: {map-resolvers: [%s], mptcp: {binding: %s}}", resolver, bindingStateless)
	w.line("      etr:\n        map-servers: [{ms-address: %s, authentication-keys: [{auth-key-value: %s}]}]",
		resolver,
		keyOf(site))
	w.line("        local-eids: [%s]", strings.Join(eids, ", "))
}

// paths are locators. Each RTR is strict: a path is not left without notice.
func (w *writer) paths(s source, paths int, to string) {
	for i, by := range s.Paths[:paths] {
		w.line("          - explicit-locator-path: [{address: %s, lrs-bits: [strict]}, %s]\n            priority: %d",
			w.p.rtr(by), w.p.xtr(to), i+1)
	}
}
