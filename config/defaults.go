// SPDX-License-Identifier: Apache-2.0

package config

// What a key has when the file leaves it out. The values of RFC 9301 where it
// gives one; docs/configuration.md lists all, and a test compares.

import (
	"time"

	"loci/config/multipath"
	"loci/lisp"
)

// defaulter is a section with defaults, foreignDefaulter one of a package below; they are set before it is read.
type (
	defaulter        interface{ setDefaults() }
	foreignDefaulter interface{ SetDefaults() }
)

func setDefaults(section any) {
	switch preset := section.(type) {
	case defaulter:
		preset.setDefaults()
	case foreignDefaulter:
		preset.SetDefaults()
	}
}

func (c *Config) setDefaults() {
	c.Control.setDefaults()
	c.Datapath.setDefaults()
	c.Limits.setDefaults()
	c.Logging.setDefaults()
}

func (s *SiteInterface) setDefaults() { s.Hook, s.Forwarding = HookAuto, ForwardingFast }

func (i *CoreInterface) setDefaults() { i.Hook, i.Forwarding = HookAuto, ForwardingFast }

func (l *Locator) setDefaults() {
	*l = Locator{Port: dataPort, AddressFamily: FamilyBoth}
	l.setAttributes(lisp.NewLocator(lisp.RLOC{}))
}

func (h *Hop) setDefaults() { h.Port = dataPort }

func (i *ITR) setDefaults() {
	i.MissPolicy, i.MissForm, i.HandOver.To = MissQueue, MissFormEID, HandedToMapping
	i.MPTCP.Binding, i.PathIdentification = multipath.Off, multipath.Unidentified
	i.Wait.setDefaults()
	i.MapCache.setDefaults()
	i.RLOCProbing.SetDefaults()
}

func (r *RTR) setDefaults() { r.PathIdentification = multipath.Unidentified }

func (e *ETR) setDefaults() {
	e.QuickRegistrationInterval = leastQuickRegistration
	e.PiggybackedMappings, e.PathIdentification = PiggybackedIgnore, multipath.Unidentified
	e.NATTraversal.setDefaults()
}

func (w *Wait) setDefaults() {
	*w = Wait{PacketsPerDestination: 256, Packets: 8192, Octets: 64 << 20, Time: 5 * time.Second}
}

func (m *MapCache) setDefaults() {
	*m = MapCache{Limit: 1 << 16, IdleTimeout: 30 * time.Minute, ServeStale: 24 * time.Hour, UnlimitedTTL: 24 * time.Hour}
}

func (m *MapServerRef) setDefaults() {
	*m = MapServerRef{WantMapNotify: true, RegistrationInterval: time.Minute}
}

func (l *LocalEID) setDefaults() { l.TTLMinutes = 1440 }

func (k *Key) setDefaults() { k.Algorithm = AlgorithmHMACSHA256HKDF }

func (m *MapServer) setDefaults() { m.RegistrationTimeout = 3 * time.Minute }

func (s *Site) setDefaults() {
	s.ProxyReply = ProxyReplyByRequest
	s.Policy.setDefaults()
}

func (c *Control) setDefaults() {
	*c = Control{Socket: "/run/loci/control.sock", Port: defaultControlPort}
}

func (d *Datapath) setDefaults() {
	*d = Datapath{
		Engine: EngineAuto, PinDirectory: "/sys/fs/bpf/loci", Interface: "loci0",
		RouteTable: 4341, RulePriority: 4341, FallbackRulePriority: 43410,
		RouteProtocol: 143, SourceRoutes: true, SourceRouteTable: 4342, SourceRulePriority: 4330,
		VethShortcut: true, RecursionDepth: 1,
		SourceCheck: SourceCheckOff,
		DataHeader:  DataHeader{EchoWait: 10 * time.Second, EchoInterval: time.Minute},
	}
}

func (l *Limits) setDefaults() {
	*l = Limits{
		MapReplies:       Rate{Frequency{1, 3 * time.Second}, 3},
		ProbeReplies:     Rate{Frequency{1, time.Second}, 5},
		MapRepliesTotal:  Rate{Frequency{20000, time.Second}, 20000},
		MapRequestsTotal: Rate{Frequency{25000, time.Second}, 25000},
		NegativeReplies:  Rate{Frequency{10000, time.Second}, 10000},
		MapNotifies:      Rate{Frequency{1000, time.Second}, 10000},
		MapRegisters:     Rate{Frequency{2000, time.Second}, 200},
		SMRInvoked:       Rate{Frequency{1, 3 * time.Second}, 3},
		SMRs:             Rate{Frequency{1, 3 * time.Second}, 4},
		SMRsTotal:        Rate{Frequency{2000, time.Second}, 200},
		RLOCProbes:       Rate{Frequency{2000, time.Second}, 200},
		Notices:          Rate{Frequency{200, time.Second}, 1000},

		RateEntries: 1 << 18, Locators: 1 << 16, SMRPeers: 1 << 13, PendingRequests: 1 << 16,
		Registrations: 2 << 20, RegistrationsPerSite: 2 << 20,
		RegistrantsPerPrefix: 16, ReplayEntriesPerSite: 4096, Notifications: 1 << 14, MoreSpecificsPerReply: 64,
	}
}

func (l *Logging) setDefaults() { *l = Logging{Level: "info", Format: "text"} }
