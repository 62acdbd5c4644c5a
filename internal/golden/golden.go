// SPDX-License-Identifier: Apache-2.0

// Package golden reads the golden packets of testdata/packets: what a tunnel
// router makes of a packet (RFC 9300 s.4, s.5). Package forward and the programs
// in bpf/ are held against the same table. It is for tests alone and never decides
// whether a result is right.
package golden

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"slices"

	"loci/lisp"
)

// File is where the table lies, seen from the root of the repository.
const File = "testdata/packets/golden.json"

// The offsets of the nonce in the LISP header, behind outer IPv4 and IPv6 headers.
const (
	nonceOctets = 3
	nonceInIPv4 = 20 + 8 + 1
	nonceInIPv6 = 40 + 8 + 1
)

// Table is the router that the packets come to, and the packets.
type Table struct {
	Router Router
	Cases  []Case
}

// Router is the configuration that all cases share.
type Router struct {
	LocalRLOCs  []netip.Addr  `json:"local_rlocs"`
	PathMTU     int           `json:"path_mtu"`
	Unreachable []netip.Addr  // RLOCs without a route
	Database    []lisp.Prefix // EID-prefixes of the site
	MapCache    []Mapping     `json:"map_cache"`

	// What headers may tell, by the prefix of an entry of either table.
	Versions     map[lisp.Prefix]uint16
	LocatorsDown map[lisp.Prefix][]netip.Addr `json:"locators_down"` // of Database entries
	EchoNonce    []lisp.Prefix                `json:"echo_nonce"`

	Lists []List // deny and allow lists, where the settings of a case switch them on

	Policies []Policy // of the roles that a case switches on

	Flows []Flow // that are bound to a path
}

// Flow is a flow that is bound.
type Flow struct {
	Instance            lisp.InstanceID
	Source, Destination netip.Addr
	Protocol            uint8
	Ports               [2]uint16 // source and destination
	Path                []lisp.RLOC
}

// Bound are the flows that are bound, with their paths.
func (r *Router) Bound() (map[lisp.Flow]lisp.Path, error) {
	bound := map[lisp.Flow]lisp.Path{}
	for _, f := range r.Flows {
		path, err := lisp.NewPath(f.Path...)
		if err != nil {
			return nil, err
		}
		bound[lisp.Flow{
			Instance: f.Instance, Source: lisp.EIDFromAddr(f.Source),
			Destination: lisp.EIDFromAddr(f.Destination),
			Protocol:    f.Protocol, SourcePort: f.Ports[0], DestinationPort: f.Ports[1],
		}] = path
	}
	return bound, nil
}

// Policy is what the router does in a role beside ITR and ETR, in an Instance-ID.
type Policy struct {
	Role     string // rtr, pitr or petr
	Instance lisp.InstanceID
	EIDs     []netip.Prefix
	Sources  []netip.Prefix // of a PITR; none: all
}

// Policy returns the policy of a role where the case switches the role on, else nil.
func (r *Router) Policy(c *Case, role string, instance lisp.InstanceID) *Policy {
	for i := range r.Policies {
		if p := &r.Policies[i]; p.Role == role && p.Instance == instance && slices.Contains(c.Roles, role) {
			return p
		}
	}
	return nil
}

// Covers reports whether the policy is for an EID.
func (p *Policy) Covers(eid netip.Addr) bool {
	return slices.ContainsFunc(p.EIDs, func(prefix netip.Prefix) bool { return prefix.Contains(eid) })
}

// Proxies reports whether a PITR's policy is for a source and a destination.
func (p *Policy) Proxies(source, destination netip.Addr) bool {
	return p.Covers(destination) && (len(p.Sources) == 0 ||
		slices.ContainsFunc(p.Sources, func(prefix netip.Prefix) bool { return prefix.Contains(source) }))
}

// List is what a kind of list holds: the longest prefix decides.
type List struct {
	Packets  string // encapsulated or decapsulated
	Address  string // inner-source, inner-destination, outer-source or outer-destination
	Instance lisp.InstanceID
	Entries  map[netip.Prefix]string // permit or deny
}

// Kind is the number of enum lisp_list_kind.
func (l *List) Kind() uint8 {
	kind := slices.Index([]string{"inner-source", "inner-destination", "outer-source", "outer-destination"}, l.Address)
	if l.Packets == "decapsulated" {
		kind += 4
	}
	return uint8(kind)
}

// Denies searches the entries one by one.
func (l *List) Denies(a netip.Addr) (denied bool) {
	longest := -1
	for p, verdict := range l.Entries {
		if p.Contains(a) && p.Bits() > longest {
			longest, denied = p.Bits(), verdict == "deny"
		}
	}
	return denied
}

// Mapping is a map-cache entry of the router.
type Mapping struct {
	Prefix   lisp.Prefix
	Locators []Locator
	Action   lisp.Action
	Hold     bool
}

// Locator is a locator of a Mapping, reachable.
type Locator struct {
	RLOC     lisp.RLOC
	Behind   []lisp.RLOC // the other hops of a path
	Next     uint8       // the hop that packets are sent to
	Priority uint8
	Weight   uint8
}

// Case is a packet and what becomes of it; generate.py says what the words mean.
type Case struct {
	Name         string
	Why          string
	Hook         string // site, core, local, tap, released
	Instance     lisp.InstanceID
	Segment      int // gso_size
	Marking      []string
	Settings     []string
	Roles        []string // beside ITR and ETR: rtr, pitr, petr
	MissPolicy   string   `json:"miss_policy"`
	Input        Hex
	Verdict      string
	Reason       string
	Output       Hex
	Inner        Hex  // what goes to the stack or waits of a packet from the core that is not for the site
	Relayed      bool // released: an RTR's
	Proxied      bool // what is encapsulated or waits is a PITR's
	LargestInner int  `json:"largest_inner"`
	Miss         bool
	Notes        []string

	Peer        *Peer  // what is remembered of an RLOC before the packet
	StaleEvents int    `json:"stale_events"` // how often the outer source was reported for old versions
	ExactNonce  bool   `json:"exact_nonce"`
	Hints       []Hint // what the control plane is told
	Owes        *uint32
	Subflow     Hex // the TCP header that the control plane is told
}

// Peer is the state of Echo-Nonce with an RLOC; Age is that of Owed and Requested in
// seconds.
type Peer struct {
	RLOC            netip.Addr
	Owed, Requested uint32
	Age             int
}

// Hint is what a packet from the core told.
type Hint struct {
	Kind         string
	Value, Other uint32
}

// Hex are octets, written as hexadecimal digits.
type Hex []byte

// UnmarshalText reads hexadecimal digits.
func (h *Hex) UnmarshalText(text []byte) (err error) {
	*h, err = hex.DecodeString(string(text))
	return err
}

// Load reads the table of the repository at root.
func Load(root string) (*Table, error) {
	text, err := os.ReadFile(root + "/" + File)
	if err != nil {
		return nil, fmt.Errorf("golden packets: %w", err)
	}
	var t Table
	if err := json.Unmarshal(text, &t); err != nil {
		return nil, fmt.Errorf("golden packets in %s: %w", File, err)
	}
	return &t, nil
}

// LocatorSet makes the mapping's locators.
func (m Mapping) LocatorSet() (lisp.LocatorSet, error) {
	locators := make([]lisp.Locator, 0, len(m.Locators))
	for _, l := range m.Locators {
		path, err := lisp.NewPath(append([]lisp.RLOC{l.RLOC}, l.Behind...)...)
		if err != nil {
			return nil, err
		}
		locators = append(locators, lisp.Locator{RLOC: path.RLOC, Behind: path.Behind, Next: l.Next, Priority: l.Priority, Weight: l.Weight, Reachable: true})
	}
	return lisp.NewLocatorSet(locators...)
}

// Has reports whether the case asks for a marking or another setting.
func (c *Case) Has(setting string) bool {
	return slices.Contains(c.Marking, setting) || slices.Contains(c.Settings, setting)
}

// Masked is what of an encapsulated packet is compared.
func (c *Case) Masked(packet []byte) []byte {
	if c.ExactNonce {
		return packet
	}
	return MaskNonce(packet)
}

// DatabaseLocators makes the locators of a Database entry: all own RLOCs, reachable
// but for those that are down.
func (r *Router) DatabaseLocators(p lisp.Prefix) (lisp.LocatorSet, error) {
	var locators []lisp.Locator
	for _, a := range r.LocalRLOCs {
		locators = append(locators, lisp.Locator{
			RLOC: lisp.RLOCFromAddr(a), Priority: 1, Weight: 100, Local: true, Reachable: !slices.Contains(r.LocatorsDown[p], a),
		})
	}
	return lisp.NewLocatorSet(locators...)
}

// StatusBits are the Locator-Status-Bits of a locator-set (RFC 9300 s.10).
func StatusBits(set lisp.LocatorSet) (bits uint32) {
	for i, l := range set {
		if l.Reachable {
			bits |= 1 << i
		}
	}
	return bits
}

// nonceFlag is N in the first octet of the LISP header.
const nonceFlag = 0x80

// MaskNonce returns a copy of an encapsulated packet with the nonce zero, which is
// random in what is sent. Without N there is none.
func MaskNonce(packet []byte) []byte {
	masked := append([]byte(nil), packet...)
	at := nonceInIPv4
	if len(masked) > 0 && masked[0]>>4 == 6 {
		at = nonceInIPv6
	}
	if len(masked) >= at+nonceOctets && masked[at-1]&nonceFlag != 0 {
		clear(masked[at : at+nonceOctets])
	}
	return masked
}
