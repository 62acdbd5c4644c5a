// SPDX-License-Identifier: Apache-2.0

// Package config is Loci's configuration: the model, the checks that need no more than
// the file itself, the difference of two configurations and the effective form with
// defaults. Keys have the names of the YANG modules of LISP (ietf-lisp and companions)
// where those name the thing; docs/configuration.md describes every one of them.
//
// Load and Parse read a file in three steps. Package source makes a tree of its text,
// package codec reads the tree into the structs here by their tags, and the checks here
// compare the values with each other. Every problem names its place in the file.
//
// The package opens only the files that it is given: whether an interface
// exists or an address is this host's is the daemon's to find out, which reports it
// by Config.Problem, at the position of the value in the file.
package config

import (
	"net/netip"
	"time"

	"loci/config/codec"
	"loci/config/mobile"
	"loci/config/multipath"
	"loci/config/probing"
	"loci/config/source"
	"loci/config/translation"
	"loci/config/tun"
	"loci/lisp"
)

// Config is one configuration, complete: what the file leaves out has its default.
// A role runs when its section is there. Treat it as immutable.
type Config struct {
	RouterID    *RouterID            `key:"lisp-router-id"`
	Interfaces  Interfaces           `key:"interfaces"`
	LocatorSets map[string][]Locator `key:"locator-sets" max:"1024"`
	ITR         *ITR                 `key:"itr"`
	ETR         *ETR                 `key:"etr"`
	RTR         *RTR                 `key:"rtr"`
	PITR        *PITR                `key:"pitr"`
	PETR        *PETR                `key:"petr"`
	MobileNode  *mobile.Node         `key:"mobile-node"`
	MapServer   *MapServer           `key:"map-server"`
	MapResolver *MapResolver         `key:"map-resolver"`
	Control     Control              `key:"control"`
	Datapath    Datapath             `key:"datapath"`
	// PublicInternet forbids what RFC 9300 s.4.1 and RFC 9301 s.1.1 forbid there.
	PublicInternet bool    `key:"public-internet"`
	Limits         Limits  `key:"limits"`
	Logging        Logging `key:"logging"`
	Metrics        Metrics `key:"metrics"`

	// Warnings are about what is allowed but probably not meant.
	Warnings []source.Problem

	source *source.File
	own    ownEIDs // while the file is checked

	addresses []codec.PlacedAddress // of the file, in its order
}

// RouterID names this router in its Map-Registers (RFC 9301 s.5.6, I bit).
type RouterID struct {
	XTRID  XTRID  `key:"xtr-id" required:"true"`
	SiteID uint64 `key:"site-id"`
}

// Interfaces are those the data plane works at.
type Interfaces struct {
	Site []SiteInterface `key:"site" max:"256"`
	Core []CoreInterface `key:"core" max:"64"`
}

// SiteInterface leads to hosts with EIDs of one Instance-ID.
type SiteInterface struct {
	Interface  InterfaceRef    `key:"interface" required:"true"`
	VLAN       uint16          `key:"vlan" range:"0..4094"` // 0: frames without a tag
	InstanceID lisp.InstanceID `key:"instance-id"`
	Hook       Hook            `key:"hook" oneof:"auto,tc,xdp"`
	Forwarding Forwarding      `key:"forwarding" oneof:"fast,stack"`
}

// CoreInterface leads to the network of the RLOCs.
type CoreInterface struct {
	Interface InterfaceRef `key:"interface" required:"true"`
	Hook      Hook         `key:"hook" oneof:"auto,tc,xdp"`

	Forwarding Forwarding `key:"forwarding" oneof:"fast,stack"`
}

// Forwarding says whether the host's IP forwarding sees inner packets.
type Forwarding string

// What Forwarding can be.
const (
	ForwardingFast  Forwarding = "fast"
	ForwardingStack Forwarding = "stack"
)

// Hook says where the data plane takes packets at an interface.
type Hook string

// The hooks.
const (
	HookAuto Hook = "auto"
	HookTC   Hook = "tc"
	HookXDP  Hook = "xdp"
)

// InterfaceRef is an interface by its name or by an address it has: one of the two
// is set.
type InterfaceRef struct {
	Name    string
	Address netip.Addr
}

// Locator is one locator of a set: a literal address, the addresses that an interface
// has, or an explicit locator path. Exactly one of Interface, Address and Path is set.
type Locator struct {
	Interface         string        `key:"interface"`
	AddressFamily     AddressFamily `key:"address-family" oneof:"both,ipv4,ipv6"`
	Address           netip.Addr    `key:"address"`
	Port              uint16        `key:"port" range:"1..65535"` // of the data plane, which a NAT may have changed
	Path              ExplicitPath  `key:"explicit-locator-path"`
	Priority          uint8         `key:"priority"`
	Weight            uint8         `key:"weight"`
	MulticastPriority uint8         `key:"multicast-priority"`
	MulticastWeight   uint8         `key:"multicast-weight"`
	Reachable         bool          `key:"reachable"` // R bit
}

// Attributes is a locator without an address, with all else that l says of it.
func (l *Locator) Attributes() lisp.Locator {
	return lisp.Locator{
		Priority: l.Priority, Weight: l.Weight,
		MulticastPriority: l.MulticastPriority, MulticastWeight: l.MulticastWeight,
		Reachable: l.Reachable,
	}
}

func (l *Locator) setAttributes(a lisp.Locator) {
	l.Priority, l.Weight = a.Priority, a.Weight
	l.MulticastPriority, l.MulticastWeight = a.MulticastPriority, a.MulticastWeight
	l.Reachable = a.Reachable
}

// AddressFamily says which addresses of an interface are locators.
type AddressFamily string

// The address families.
const (
	FamilyBoth AddressFamily = "both"
	FamilyIPv4 AddressFamily = "ipv4"
	FamilyIPv6 AddressFamily = "ipv6"
)

// RLOCs is a locator-set: by the name of one in Config.LocatorSets, or inline.
// With neither it is the default set; Config.LocatorsOf resolves all three.
type RLOCs struct {
	Name     string
	Locators []Locator
}

// ITR configures the Ingress Tunnel Router, and how an RTR and a PITR find mappings.
type ITR struct {
	MapResolvers    []netip.AddrPort    `key:"map-resolvers" max:"16"` // port 0: Control.Port
	RLOCs           RLOCs               `key:"itr-rlocs"`
	MissPolicy      MissPolicy          `key:"miss-policy" oneof:"queue,drop,natively-forward,hand-over"`
	MissPolicies    []InstancePolicy    `key:"miss-policies" max:"4096"`
	MissForm        MissForm            `key:"miss-form" oneof:"eid,header,packet"`
	HandOver        HandOver            `key:"hand-over"`
	Gleaning        bool                `key:"gleaning"` // RFC 9300 s.9
	Wait            Wait                `key:"wait"`
	MapCache        MapCache            `key:"map-cache"`
	RLOCProbing     probing.RLOCProbing `key:"rloc-probing"`
	LocatorPolicies []LocatorPolicy     `key:"locator-policies" max:"1024"` // the first that fits a locator counts
	// RFC 6832 s.6.1; none: packets to holes go unencapsulated
	ProxyETRs RLOCs `key:"proxy-etrs"`

	MPTCP              multipath.TCP            `key:"mptcp"`
	PathIdentification multipath.Identification `key:"path-identification" oneof:"pid,off"`

	LISPNAT []translation.Entry `key:"lisp-nat" max:"64"` // RFC 6832 s.7
}

// Wait bounds the packets that wait for a mapping.
type Wait struct {
	PacketsPerDestination int           `key:"packets-per-destination" range:"1..65536"`
	Packets               int           `key:"packets" range:"1..1048576"`
	Octets                int           `key:"octets" range:"65536..4294967296"`
	Time                  time.Duration `key:"time" unit:"seconds" range:"100ms..60s"`
}

// MapCache configures the ITR's map-cache.
type MapCache struct {
	Limit        int             `key:"limit" range:"1..16777216"`
	IdleTimeout  time.Duration   `key:"idle-timeout" unit:"seconds" range:"0s..720h"` // 0: never
	ServeStale   time.Duration   `key:"serve-stale" unit:"seconds" range:"0s..24h"`   // 0: never
	UnlimitedTTL time.Duration   `key:"unlimited-time-to-live" unit:"seconds" range:"1m..720h"`
	Mappings     []StaticMapping `key:"mappings" max:"65536"`
}

// StaticMapping is a map-cache entry that never expires. Without locators it is
// negative and its action counts.
type StaticMapping struct {
	InstanceID lisp.InstanceID `key:"instance-id"`
	EID        lisp.Prefix     `key:"eid" required:"true"` // in Instance-ID 0: see Prefix
	RLOCs      RLOCs           `key:"rlocs"`
	Action     *lisp.Action    `key:"map-reply-action" oneof:"no-action,natively-forward,send-map-request,drop,drop-policy-denied,drop-auth-failure"`
}

// Prefix is the EID-Prefix in its Instance-ID.
func (m StaticMapping) Prefix() lisp.Prefix { return inInstance(m.InstanceID, m.EID) }

// ETR configures the Egress Tunnel Router.
type ETR struct {
	MapServers         []MapServerRef `key:"map-servers" max:"16"`
	LocalEIDs          []LocalEID     `key:"local-eids" max:"65536"`
	Siblings           []Sibling      `key:"siblings" max:"8"`
	NATTraversal       NATTraversal   `key:"nat-traversal"`
	WithdrawOnShutdown bool           `key:"withdraw-on-shutdown"`
	// PiggybackedMappings says what becomes of mappings that Map-Requests bring along
	// (RFC 9301 s.5.3).
	PiggybackedMappings PiggybackedMappings `key:"piggybacked-mappings" oneof:"ignore,verify"`
	// QuickRegistrationInterval is the distance of Map-Registers in the first five
	// minutes (RFC 9301 s.8.2); 0 is never.
	QuickRegistrationInterval time.Duration `key:"quick-registration-interval" unit:"seconds" range:"0s..1h"`
	// NonceFile is where the last nonce of Map-Registers outlives a restart (RFC 9301 s.5.6);
	// empty for nowhere.
	NonceFile          string                   `key:"nonce-file"`
	PathIdentification multipath.Identification `key:"path-identification" oneof:"eld,off"`
}

// NonceFile is that of the ETR, empty without one.
func (c *Config) NonceFile() string {
	if c.ETR == nil {
		return ""
	}
	return c.ETR.NonceFile
}

// PiggybackedMappings says what becomes of mappings that Map-Requests bring along.
type PiggybackedMappings string

// What becomes of them.
const (
	PiggybackedIgnore PiggybackedMappings = "ignore"
	PiggybackedVerify PiggybackedMappings = "verify"
)

// MapServerRef is a Map-Server that the ETR registers with.
type MapServerRef struct {
	Address              netip.AddrPort `key:"ms-address" required:"true"`                   // port 0: Control.Port
	Site                 string         `key:"site"`                                         // of LocalEID
	Keys                 []Key          `key:"authentication-keys" required:"true" max:"16"` // the first signs
	ProxyReply           bool           `key:"proxy-reply"`
	WantMapNotify        bool           `key:"want-map-notify"`
	MergeRequest         bool           `key:"merge-request"`
	UseRecordTTL         bool           `key:"use-record-ttl"`
	RegistrationInterval time.Duration  `key:"registration-interval" unit:"seconds" range:"1s..18h"`
}

// LocalEID is an EID-Prefix of this site.
type LocalEID struct {
	InstanceID lisp.InstanceID `key:"instance-id"`
	EID        lisp.Prefix     `key:"eid" required:"true"` // in Instance-ID 0: see Prefix
	RLOCs      RLOCs           `key:"rlocs"`
	TTLMinutes uint32          `key:"record-ttl" unit:"minutes" range:"1..525600"`
	MapVersion uint16          `key:"map-version" range:"0..4095"` // RFC 9302; 0: none
	Site       string          `key:"site"`                        // registered with the Map-Servers of the same site
}

// Prefix is the EID-Prefix in its Instance-ID.
func (l LocalEID) Prefix() lisp.Prefix { return inInstance(l.InstanceID, l.EID) }

// Key is a pre-shared key of a site (RFC 9301 s.5.6).
type Key struct {
	ID        uint8     `key:"auth-key-id"`
	Algorithm Algorithm `key:"auth-algorithm-id"`
	Value     Secret    `key:"auth-key-value"` // also where the key came from File
	File      string    `key:"auth-key-file"`
	// TruncatedMAC sends MACs of 96 or 128 bits, not whole ones.
	TruncatedMAC bool `key:"truncated-mac"`
}

// MapServer configures the Map-Server.
type MapServer struct {
	Sites               []Site        `key:"sites" max:"100000"`
	RegistrationTimeout time.Duration `key:"mapping-expiration-timeout" unit:"seconds" range:"1s..24h"`
	// StateDirectory is where registrations and nonces outlive a restart; empty for nowhere.
	StateDirectory string   `key:"state-directory"`
	RTRs           []RTRRef `key:"rtrs" max:"16"` // for nodes behind NATs
}

// StateDirectory is that of the Map-Server, empty without one.
func (c *Config) StateDirectory() string {
	if c.MapServer == nil {
		return ""
	}
	return c.MapServer.StateDirectory
}

// Site may register its EID-Prefixes.
type Site struct {
	Name        string      `key:"name"`
	SiteID      uint64      `key:"site-id"`
	Keys        []Key       `key:"authentication-keys" required:"true" max:"16"`
	EIDPrefixes []EIDPrefix `key:"eid-prefixes" required:"true" max:"65536"`
	// ProxyReply says who answers Map-Requests for the site.
	ProxyReply ProxyReply `key:"proxy-reply" oneof:"by-request,always,never"`
	// AcceptAnyNonce gives up replay protection for systems whose nonces do not grow.
	AcceptAnyNonce bool       `key:"accept-any-nonce"`
	Policy         SitePolicy `key:"policy"`
}

// ProxyReply says whether the Map-Server answers Map-Requests for a site.
type ProxyReply string

// The policies.
const (
	ProxyReplyByRequest ProxyReply = "by-request"
	ProxyReplyAlways    ProxyReply = "always"
	ProxyReplyNever     ProxyReply = "never"
)

// EIDPrefix is what a site may register.
type EIDPrefix struct {
	InstanceID            lisp.InstanceID `key:"instance-id"`
	EID                   lisp.Prefix     `key:"eid" required:"true"` // in Instance-ID 0: see Prefix
	MoreSpecificsAccepted bool            `key:"more-specifics-accepted"`
}

// Prefix is the EID-Prefix in its Instance-ID.
func (p EIDPrefix) Prefix() lisp.Prefix { return inInstance(p.InstanceID, p.EID) }

// MapResolver configures the Map-Resolver. Without MapServers, the Map-Server of
// this same daemon answers.
type MapResolver struct {
	MapServers []MapServerRoute `key:"ms-address" max:"64"`
}

// MapServerRoute says which Map-Server to ask for which EIDs; without prefixes,
// for all.
type MapServerRoute struct {
	Address     netip.AddrPort `key:"address" required:"true"` // port 0: Control.Port
	EIDPrefixes []EIDRange     `key:"eid-prefixes" max:"4096"`
}

// EIDRange is an EID-Prefix in an Instance-ID.
type EIDRange struct {
	InstanceID lisp.InstanceID `key:"instance-id"`
	EID        lisp.Prefix     `key:"eid" required:"true"` // in Instance-ID 0: see Prefix
}

// Prefix is the EID-Prefix in its Instance-ID.
func (r EIDRange) Prefix() lisp.Prefix { return inInstance(r.InstanceID, r.EID) }

// Control configures the control plane's own sockets and files.
type Control struct {
	Socket    string       `key:"socket"`
	Addresses []netip.Addr `key:"addresses" max:"64"` // none: all of this host
	Port      uint16       `key:"port" range:"1..65535"`
	// AcceptZeroInnerChecksum admits Encapsulated Control Messages without inner
	// UDP checksum, which RFC 9301 s.5.8 forbids.
	AcceptZeroInnerChecksum bool `key:"accept-zero-inner-checksum"`
}

// Datapath configures the data plane in the kernel.
type Datapath struct {
	Engine               EngineChoice `key:"engine" oneof:"auto,kernel,user"`
	PinDirectory         string       `key:"pin-directory"`
	Interface            string       `key:"interface"`
	TUN                  tun.Source   `key:"tun"` // opened by another process
	RouteTable           uint32       `key:"route-table" range:"1..4294967295"`
	RulePriority         uint32       `key:"rule-priority" range:"1..32764"`
	FallbackRulePriority uint32       `key:"fallback-rule-priority" range:"1..4294967295"`
	// RouteProtocol marks every rule and route of ours, which is how they are found again.
	RouteProtocol uint8 `key:"route-protocol" range:"5..255"`
	// SourceRoutes: packets from an RLOC leave by the interface that has it, by a table of
	// that interface, the first of them SourceRouteTable.
	SourceRoutes       bool   `key:"source-routes"`
	SourceRouteTable   uint32 `key:"source-route-table" range:"1..4294967295"`
	SourceRulePriority uint32 `key:"source-rule-priority" range:"1..32763"`
	// VethShortcut hands packets to the other end of a veth without its queue.
	VethShortcut bool `key:"veth-shortcut"`
	// RecursionDepth is how many layers of encapsulation packets get at most (RFC 9300 s.4).
	RecursionDepth uint8 `key:"recursion-depth" range:"1..2"`

	// Encapsulations say how packets go to RLOCs; the first that fits counts.
	Encapsulations []EncapsulationRule `key:"encapsulations" max:"256"`

	AccessLists []AccessList `key:"access-lists" max:"1024"`

	DataHeader  DataHeader  `key:"data-header"`
	SourceCheck SourceCheck `key:"source-check" oneof:"off,loose,strict"`

	MappingSocket *MappingSocket `key:"mapping-socket"`
	Lispers       *Lispers       `key:"lispers"`
}

// EngineChoice says where packets are forwarded.
type EngineChoice string

// The choices.
const (
	EngineAuto   EngineChoice = "auto"   // in the kernel, or in user space where the kernel refuses
	EngineKernel EngineChoice = "kernel" // by programs in the kernel
	EngineUser   EngineChoice = "user"   // by this process, with a TUN interface and UDP sockets
)

// EncapsulationRule says how packets go to the RLOCs within a prefix, all of them
// without one.
type EncapsulationRule struct {
	RLOCPrefix    netip.Prefix  `key:"rloc-prefix"`
	Encapsulation Encapsulation `key:"encapsulation" required:"true" oneof:"lisp,lisp-gpe,vxlan-gpe"`
}

// Encapsulation is what stands between UDP and the inner packet.
type Encapsulation string

// The encapsulations.
const (
	EncapsulationLISP     Encapsulation = "lisp"
	EncapsulationLISPGPE  Encapsulation = "lisp-gpe"
	EncapsulationVXLANGPE Encapsulation = "vxlan-gpe"
)

// DataHeader switches on what data headers carry among routers that trust each other.
type DataHeader struct {
	StatusBits   bool          `key:"locator-status-bits"` // RFC 9300 s.10
	MapVersions  bool          `key:"map-versions"`        // RFC 9302
	EchoNonce    bool          `key:"echo-nonce"`          // RFC 9300 s.10.1
	EchoWait     time.Duration `key:"echo-nonce-wait" unit:"seconds" range:"1s..10m"`
	EchoInterval time.Duration `key:"echo-nonce-interval" unit:"seconds" range:"1s..24h"`
}

// SourceCheck says whether the outer source of a packet from the core must be a
// locator of its inner source.
type SourceCheck string

// The checks.
const (
	SourceCheckOff    SourceCheck = "off"
	SourceCheckLoose  SourceCheck = "loose"
	SourceCheckStrict SourceCheck = "strict"
)

// Lispers is the JSON interface between the planes of lispers.net: where it meets a
// control plane or a data plane that is not ours.
type Lispers struct {
	Directory  string       `key:"directory" required:"true"`
	NoLocators *lisp.Action `key:"no-locators"` // nil drops
}

// MappingSocket is where other programs reach the data plane, a control plane in
// another process among them.
type MappingSocket struct {
	Path  string `key:"path" required:"true"`
	Owner string `key:"owner"` // user that may change the tables, beside root
	Group string `key:"group"` // group that may read them
}

// Limits bound what others can make the control plane do and keep. What RFC 9301
// limits with MUST is no configuration.
type Limits struct {
	MapReplies       Rate `key:"map-replies"`        // to one RLOC for one EID-Prefix
	ProbeReplies     Rate `key:"rloc-probe-replies"` // likewise
	MapRepliesTotal  Rate `key:"map-replies-total"`
	MapRequestsTotal Rate `key:"map-requests-total"`
	NegativeReplies  Rate `key:"negative-map-replies"`
	MapNotifies      Rate `key:"map-notifies"`  // to one ETR
	MapRegisters     Rate `key:"map-registers"` // to one Map-Server
	SMRInvoked       Rate `key:"smr-invoked-map-requests"`
	SMRs             Rate `key:"solicit-map-requests"` // to one RLOC
	SMRsTotal        Rate `key:"solicit-map-requests-total"`
	RLOCProbes       Rate `key:"rloc-probes"` // all of them together
	Notices          Rate `key:"notices"`

	RateEntries           int `key:"rate-entries" range:"1..16777216"`
	Locators              int `key:"locators" range:"1..16777216"`
	SMRPeers              int `key:"solicit-map-request-peers" range:"1..16777216"`
	PendingRequests       int `key:"pending-map-requests" range:"1..16777216"`
	Registrations         int `key:"registrations" range:"1..16777216"`
	RegistrationsPerSite  int `key:"registrations-per-site" range:"1..16777216"`
	RegistrantsPerPrefix  int `key:"registrants-per-eid-prefix" range:"1..256"`
	ReplayEntriesPerSite  int `key:"replay-entries-per-site" range:"1..1048576"`
	Notifications         int `key:"unacknowledged-map-notifies" range:"1..16777216"`
	MoreSpecificsPerReply int `key:"more-specifics-per-map-reply" range:"1..255"`
}

// Rate is a token bucket: Burst at once, Rate on average.
type Rate struct {
	Rate  Frequency `key:"rate"`
	Burst int       `key:"burst" range:"1..1000000"`
}

// Metrics configures the metrics for Prometheus, by HTTP at /metrics. Without an address nothing is served.
type Metrics struct {
	Listen     []ListenAddress `key:"listen" max:"16"`
	PerMapping bool            `key:"per-mapping"` // counters of each map-cache entry, too
}

// Logging configures the log on standard error.
type Logging struct {
	Level  string `key:"level" oneof:"debug,info,warn,error"`
	Format string `key:"format" oneof:"text,json"`
}

// inInstance moves a prefix that was read without one into its Instance-ID.
func inInstance(instance lisp.InstanceID, p lisp.Prefix) lisp.Prefix {
	moved, err := lisp.PrefixFrom(instance, p.EID(), p.Bits())
	if err != nil { // the parts of a valid prefix are valid
		return p
	}
	return moved
}

// LocatorsOf resolves a locator-set: the inline one, the named one, or where
// nothing is said every address of every core interface, priority 1, weight 100.
func (c *Config) LocatorsOf(r RLOCs) []Locator {
	switch {
	case r.Name != "":
		return c.LocatorSets[r.Name]
	case len(r.Locators) > 0:
		return r.Locators
	}
	var list []Locator
	for _, core := range c.Interfaces.Core {
		l := Locator{}
		l.setDefaults()
		l.Interface, l.Address = core.Interface.Name, core.Interface.Address
		list = append(list, l)
	}
	return list
}

// UsesDataPlane reports whether a role of this configuration forwards packets.
func (c *Config) UsesDataPlane() bool { return c.ITR != nil || c.ETR != nil || c.relays() }

// withPort is a server's address with the port that is meant.
func (c *Config) withPort(a netip.AddrPort) netip.AddrPort {
	if a.Port() != 0 {
		return a
	}
	return netip.AddrPortFrom(a.Addr(), c.Control.Port)
}
