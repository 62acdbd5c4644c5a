// SPDX-License-Identifier: Apache-2.0

package settings

// Config: everything a Node is told by its operator, as one value that Configure
// compares with the current one. It never reads files or text: package config
// does that. What is checked here is what would break the protocol.

import (
	"net/netip"
	"slices"
	"time"

	"loci/control/internal/locatorset"
	"loci/lisp"
	"loci/wire"
)

// Config is the whole configuration of a Node. A role that is nil is off. The
// Node keeps slices of it: do not change them afterwards.
type Config struct {
	XTRID       [16]byte // zero: no xTR-ID is sent (RFC 9301 s.5.6, I bit)
	SiteID      uint64
	LocalRLOCs  []lisp.RLOC // own RLOCs, best first; those of the Map-Requests' ITR-RLOC fields
	ControlPort uint16      // UDP port of the control plane, 0 for 4342

	// AcceptZeroInnerChecksum admits Encapsulated Control Messages without inner
	// UDP checksum, as some deployed systems send them.
	AcceptZeroInnerChecksum bool

	// Roles beside ITR and ETR, with their policies.
	Roles []RolePolicy
	// RecursionDepth is how many layers of encapsulation packets get at most; 0 is 1. With 2 the RLOCs of
	// mappings, and hops of paths with the L bit, may be EIDs of Instance-ID 0.
	RecursionDepth uint8

	// NATRelay makes an RTR forward to nodes behind NATs; nil: it does not.
	NATRelay *NATRelay

	ITR         *ITRConfig
	ETR         *ETRConfig
	MapServer   *MapServerConfig
	MapResolver *MapResolverConfig
	Limits      Limits
}

// ITRConfig configures the ITR.
type ITRConfig struct {
	MapResolvers   []netip.AddrPort // the first of those that answer soonest is asked; port 0 is the control port
	StaticMappings []lisp.Mapping   // in the map-cache for ever

	// UnlimitedTTL is how long a mapping is kept whose TTL leaves that to the
	// receiver; 0 is 24 hours.
	UnlimitedTTL time.Duration
	// IdleTimeout removes mappings that forwarded nothing for so long; 0 is 30
	// minutes, negative is never.
	IdleTimeout time.Duration

	// ServeStale is how long past its TTL a mapping in use is used at most, while the mapping system is silent
	// and a locator of it answers; 0 is 24 hours, negative is never.
	ServeStale time.Duration

	RLOCProbing     ProbingConfig
	ProbedPeers     []lisp.RLOC     // are probed though no mapping names them, MaxProbedPeers at most
	LocatorPolicies []LocatorPolicy // the first that fits a locator counts

	// PublicInternet ignores what data packets say about locators: Locator-Status-Bits and
	// Echo-Nonce are for trusted networks (RFC 9300 s.4.1).
	PublicInternet bool

	// Gleaning uses the outer source of data packets as the locator of their inner source
	// while the mapping system is asked (RFC 9300 s.9). It has no effect with PublicInternet.
	Gleaning bool

	// IdentifiesPaths says that an RTR can tell which of several paths of a mapping a packet is on.
	IdentifiesPaths bool

	// BindSubflows gives each subflow of Multipath TCP a path of its own among the locators of its mapping.
	BindSubflows bool
	// AskForSubflows has the ETR of the destination choose these paths; with BindSubflows.
	AskForSubflows bool

	// ProxyETRs take what the mapping system calls Natively-Forward (RFC 6832 s.6.1); none
	// leaves it unencapsulated.
	ProxyETRs lisp.LocatorSet
}

// MaxProbedPeers is how many peers are probed at most.
const MaxProbedPeers = 64

// ProbingConfig configures RLOC-probing (RFC 9301 s.7.1). It is on unless it is said
// to be off: it is the one way to learn that a path is dead which also works over the
// Internet, and without it a mapping keeps sending into a dead path until its TTL
// ends, a day by default. It costs one small message for each RLOC and interval.
type ProbingConfig struct {
	Off             bool
	Interval        time.Duration // between probes of a locator; 0 is 10 seconds
	Retries         int           // after an unanswered probe; 0 is 3, negative none
	RetriesInterval time.Duration // between them, and until the last is given up; 0 is a second

	// AcceptNonAuthoritative takes answers without A bit for word that the probed RLOC answers, and for nothing
	// else.
	AcceptNonAuthoritative bool
}

// ETRConfig configures the ETR.
type ETRConfig struct {
	MapServers []MapServerPeer
	Database   []DatabaseMapping
	Siblings   []SiblingConfig // other xTRs of the site; they need the ITR as well
	NAT        *NATTraversal   // nil: NATs are not looked for

	// WithdrawOnShutdown sends a last Map-Register with TTL 0. Off by default: a
	// restart within the registration timeout then costs no traffic at all.
	WithdrawOnShutdown bool

	// EchoNonce says in Map-Replies that this system echoes nonces (RFC 9301 s.5.4, E).
	EchoNonce bool

	// VerifyPiggybacked asks the mapping system for mappings that Map-Requests bring along
	// (RFC 9301 s.5.3). They are never taken as they are.
	VerifyPiggybacked bool

	// QuickRegistrationInterval is the distance of Map-Registers in the first five
	// minutes after a start or a change (RFC 9301 s.8.2); 0 is 20 seconds, the least,
	// negative is never.
	QuickRegistrationInterval time.Duration
}

// MapServerPeer is a Map-Server that one site of the ETR registers with. Address and Site
// together are its identity: two peers cannot share both.
type MapServerPeer struct {
	Address              netip.AddrPort // port 0 is the control port
	Site                 string         // whose EID-Prefixes are registered: DatabaseMapping.Site
	Key                  Key
	OtherKeys            []Key         // taken in Map-Notifies too, while keys are rotated
	ProxyReply           bool          // P: the Map-Server shall answer for us
	WantMapNotify        bool          // M: acknowledge; retransmission depends on it
	UseTTL               bool          // T: expire by Record TTL
	MergeRequest         bool          // a: merge with the site's other xTRs
	RegistrationInterval time.Duration // 0 is a minute (RFC 9301 s.8.2)

	// What follows is the Node's to say, where it is behind a NAT. Map-Registers go by each of ByRTRs, in an ECM;
	// without any directly.
	ByRTRs     []RTRPath
	RTRs       []RTRPath    // that stand among the locators
	BehindNATs []netip.Addr // own RLOCs, which others cannot reach: of RTRs, and those that have none
	XTRID      [16]byte     // of a router that has none
	Named      []NamedPath  // by simple-nat, none otherwise
}

// Key is a pre-shared secret between a site and a Map-Server.
type Key struct {
	ID           uint8
	Algorithm    uint8 // 1, 2 or 3 (RFC 9301 s.12.5); 0 is 3
	Secret       []byte
	TruncatedMAC bool // send 96 or 128 bits as the RFC names them, not all as deployed systems do
}

// DatabaseMapping is an EID-Prefix of this site.
type DatabaseMapping struct {
	Prefix     lisp.Prefix
	Locators   lisp.LocatorSet
	TTLMinutes uint32 // 0 is lisp.DefaultTTLMinutes
	Version    uint16 // Map-Version (RFC 9302), 0 for none
	Site       string // which Map-Servers it is registered with: MapServerPeer.Site
}

// MapServerConfig configures the Map-Server.
type MapServerConfig struct {
	Sites []Site
	// RegistrationTimeout ends registrations that are not refreshed; 0 is three
	// minutes (RFC 9301 s.8.2).
	RegistrationTimeout time.Duration
	// Journal makes the Node say, as Journal effects, what has to outlive a restart.
	Journal bool
	RTRs    []RTRPeer // for nodes behind NATs
}

// Site is who may register what, with which keys.
type Site struct {
	Name       string
	Keys       []Key // several while keys are rotated, told apart by ID
	Prefixes   []SitePrefix
	ProxyReply ProxyReplyPolicy
	// AcceptAnyNonce admits RFC 6833 systems, whose nonces do not grow. It gives
	// up replay protection for the site.
	AcceptAnyNonce bool
	Policy         SitePolicy
}

// SitePrefix is an EID-Prefix that a site may register.
type SitePrefix struct {
	Prefix              lisp.Prefix
	AcceptMoreSpecifics bool
}

// ProxyReplyPolicy says who answers Map-Requests for a site.
type ProxyReplyPolicy uint8

// The policies. By request: the Map-Server answers when an ETR asked for it with
// the P bit (RFC 9301 s.8.3).
const (
	ProxyReplyByRequest ProxyReplyPolicy = iota
	ProxyReplyAlways
	ProxyReplyNever
)

// MapResolverConfig configures the Map-Resolver. What a Map-Server of the same
// Node knows is answered by that one.
type MapResolverConfig struct {
	MapServers []MapServerRoute
}

// MapServerRoute says which Map-Server to ask for which EIDs. The longest match
// wins; equal ones are asked alternately, so that a retransmission meets another server.
type MapServerRoute struct {
	Address  netip.AddrPort // port 0 is the control port
	Prefixes []lisp.Prefix  // empty: every EID
}

// Defaults of the configuration.
const (
	defaultUnlimitedTTL         = 24 * time.Hour
	defaultIdleTimeout          = 30 * time.Minute
	defaultServeStale           = 24 * time.Hour
	defaultProbeInterval        = 10 * time.Second
	defaultProbeRetries         = 3
	defaultProbeRetriesInterval = time.Second
	defaultRegistrationInterval = time.Minute
	DefaultRegistrationTimeout  = 3 * time.Minute
	// minQuickRegistrationInterval: "up to one every 20 seconds" (RFC 9301 s.8.2).
	minQuickRegistrationInterval = 20 * time.Second
)

// WithDefaults is a deep enough copy with every default filled in.
func (c Config) WithDefaults() Config {
	if c.ControlPort == 0 {
		c.ControlPort = wire.ControlPort
	}
	c.RecursionDepth = max(c.RecursionDepth, 1)
	c.Limits = c.Limits.withDefaults()
	if c.ITR != nil {
		itr := *c.ITR
		itr.MapResolvers = addressesWithPort(itr.MapResolvers, c.ControlPort)
		itr.StaticMappings = slices.Clone(itr.StaticMappings)
		for i := range itr.StaticMappings {
			itr.StaticMappings[i].Locators = sorted(itr.StaticMappings[i].Locators)
		}
		itr.ProxyETRs = sorted(itr.ProxyETRs)
		itr.UnlimitedTTL = durationOr(itr.UnlimitedTTL, defaultUnlimitedTTL)
		itr.IdleTimeout = durationOr(itr.IdleTimeout, defaultIdleTimeout)
		itr.ServeStale = min(durationOr(itr.ServeStale, defaultServeStale), defaultServeStale)
		itr.RLOCProbing = itr.RLOCProbing.withDefaults()
		c.ITR = &itr
	}
	if c.ETR != nil {
		c.ETR = c.ETR.withDefaults(c.ControlPort)
	}
	if c.MapServer != nil {
		c.MapServer = c.MapServer.withDefaults()
	}
	c.NATRelay = c.NATRelay.withDefaults()
	if c.MapResolver != nil {
		routes := make([]MapServerRoute, len(c.MapResolver.MapServers))
		for i, r := range c.MapResolver.MapServers {
			routes[i] = MapServerRoute{Address: addressWithPort(r.Address, c.ControlPort), Prefixes: r.Prefixes}
		}
		c.MapResolver = &MapResolverConfig{MapServers: routes}
	}
	return c
}

// DefaultProbing is RLOC-probing where nothing is configured.
func DefaultProbing() ProbingConfig {
	return ProbingConfig{Interval: defaultProbeInterval, Retries: defaultProbeRetries, RetriesInterval: defaultProbeRetriesInterval}
}

func (c ProbingConfig) withDefaults() ProbingConfig {
	c.Interval = durationOr(c.Interval, defaultProbeInterval)
	c.RetriesInterval = durationOr(c.RetriesInterval, min(defaultProbeRetriesInterval, c.Interval))
	switch {
	case c.Retries == 0:
		c.Retries = defaultProbeRetries
	case c.Retries < 0:
		c.Retries = 0
	}
	return c
}

func (c *ETRConfig) withDefaults(port uint16) *ETRConfig {
	etr := *c
	etr.NAT = c.NAT.withDefaults()
	etr.QuickRegistrationInterval = durationOr(etr.QuickRegistrationInterval, minQuickRegistrationInterval)
	etr.MapServers = make([]MapServerPeer, len(c.MapServers))
	for i, p := range c.MapServers {
		p.Address = addressWithPort(p.Address, port)
		p.Key = p.Key.withDefaults()
		others := make([]Key, len(p.OtherKeys))
		for j, k := range p.OtherKeys {
			others[j] = k.withDefaults()
		}
		p.OtherKeys = others
		p.RegistrationInterval = durationOr(p.RegistrationInterval, defaultRegistrationInterval)
		etr.MapServers[i] = p
	}
	etr.Database = make([]DatabaseMapping, len(c.Database))
	for i, d := range c.Database {
		if d.TTLMinutes == 0 {
			d.TTLMinutes = lisp.DefaultTTLMinutes
		}
		d.Locators = sorted(d.Locators)
		etr.Database[i] = d
	}
	return &etr
}

func (c *MapServerConfig) withDefaults() *MapServerConfig {
	ms := MapServerConfig{RegistrationTimeout: durationOr(c.RegistrationTimeout, DefaultRegistrationTimeout), Journal: c.Journal, RTRs: rtrsWithDefaults(c.RTRs)}
	ms.Sites = make([]Site, len(c.Sites))
	for i, s := range c.Sites {
		keys := make([]Key, len(s.Keys))
		for j, k := range s.Keys {
			keys[j] = k.withDefaults()
		}
		s.Keys = keys
		ms.Sites[i] = s
	}
	return &ms
}

func (k Key) withDefaults() Key {
	if k.Algorithm == wire.AlgorithmNone {
		k.Algorithm = wire.AlgorithmHMACSHA256HKDF
	}
	return k
}

// sorted brings a set into the order of RFC 9301 s.5.5; one that cannot be is left
// for validation to refuse.
func sorted(set lisp.LocatorSet) lisp.LocatorSet {
	if ordered, err := lisp.NewLocatorSet(set...); err == nil {
		return ordered
	}
	return set
}

// PeerID tells Map-Server peers apart.
type PeerID struct {
	address netip.AddrPort
	site    string
}

// ID is what tells the peer from others.
func (p MapServerPeer) ID() PeerID { return PeerID{p.Address, p.Site} }

// KeyOf finds a key of the peer by its ID.
func (p MapServerPeer) KeyOf(id uint8) (Key, bool) {
	for _, k := range p.keys() {
		if k.ID == id {
			return k, true
		}
	}
	return Key{}, false
}

// keys are all keys of the peer, the one that it is written to with first.
func (p MapServerPeer) keys() []Key { return append([]Key{p.Key}, p.OtherKeys...) }

// MACOctets is the length of the MACs that are sent with the key.
func (k Key) MACOctets() int {
	if k.TruncatedMAC {
		return wire.TruncatedMACOctets(k.Algorithm)
	}
	return wire.FullMACOctets(k.Algorithm)
}

func addressesWithPort(addresses []netip.AddrPort, port uint16) []netip.AddrPort {
	filled := make([]netip.AddrPort, len(addresses))
	for i, a := range addresses {
		filled[i] = addressWithPort(a, port)
	}
	return filled
}

func addressWithPort(a netip.AddrPort, port uint16) netip.AddrPort {
	if a.Port() == 0 {
		return netip.AddrPortFrom(a.Addr().Unmap(), port)
	}
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

func durationOr(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// Equal reports whether two peers are configured alike.
func (p MapServerPeer) Equal(o MapServerPeer) bool {
	return p.ID() == o.ID() && p.Key.equal(o.Key) && p.ProxyReply == o.ProxyReply && p.WantMapNotify == o.WantMapNotify &&
		slices.EqualFunc(p.OtherKeys, o.OtherKeys, Key.equal) && p.UseTTL == o.UseTTL && p.MergeRequest == o.MergeRequest && p.RegistrationInterval == o.RegistrationInterval &&
		slices.Equal(p.ByRTRs, o.ByRTRs) && slices.Equal(p.RTRs, o.RTRs) &&
		slices.Equal(p.BehindNATs, o.BehindNATs) && p.XTRID == o.XTRID &&
		slices.EqualFunc(p.Named, o.Named, func(a, b NamedPath) bool { return a.Equal(&b) })
}

func (k Key) equal(o Key) bool {
	return k.ID == o.ID && k.Algorithm == o.Algorithm && k.TruncatedMAC == o.TruncatedMAC && slices.Equal(k.Secret, o.Secret)
}

// Mapping is what the ETR says about an EID-Prefix of its own.
func (m DatabaseMapping) Mapping() lisp.Mapping {
	return lisp.Mapping{
		Prefix: m.Prefix, Locators: m.Locators, TTLMinutes: m.TTLMinutes,
		Authoritative: true, Version: m.Version,
	}
}

// Equal reports whether two mappings are announced alike.
func (m DatabaseMapping) Equal(o DatabaseMapping) bool { return m.Mapping().Equal(o.Mapping()) }

// EqualBarLocal is equal whatever the L bits say.
func (m DatabaseMapping) EqualBarLocal(o DatabaseMapping) bool {
	m.Locators, o.Locators = locatorset.WithLocalBits(m.Locators, nil), locatorset.WithLocalBits(o.Locators, nil)
	return m.Equal(o)
}
