// SPDX-License-Identifier: Apache-2.0

package experiment

// The file of an experiment, as its author writes it.

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"slices"
	"time"

	"github.com/goccy/go-yaml"
)

// File is one variant of an experiment: the values are in place.
type File struct {
	Name        string `yaml:"name"`
	Description string `yaml:"description"`
	Origin      string `yaml:"origin"` // where the rows come from
	Seed        uint64 `yaml:"seed"`   // of what emulated links lose and delay

	Dimensions yaml.MapSlice `yaml:"dimensions"` // see variants.go
	Nodes      []node        `yaml:"nodes"`
	Links      []link        `yaml:"links"`
	Daemons    []daemon      `yaml:"daemons"`
	Rows       []row         `yaml:"rows"`
}

// node is a network namespace.
type node struct {
	Name     string  `yaml:"name"`
	Forwards bool    `yaml:"forwards"` // it is a router
	Routes   []route `yaml:"routes"`
	// Loopback are addresses of the loopback interface.
	Loopback []netip.Prefix `yaml:"loopback"`
	// Answers says that the node returns each datagram that it receives.
	Answers bool `yaml:"answers"`
	NAT     *nat `yaml:"nat"`
}

// nat makes a node translate the sources of what it forwards to its interface Outside, with ports chosen at random.
type nat struct {
	Outside    string        `yaml:"outside"`
	UDPTimeout time.Duration `yaml:"udp-timeout"` // whole seconds; 0 is the kernel's
}

type route struct {
	To     netip.Prefix `yaml:"to"`
	Via    netip.Addr   `yaml:"via"`
	Metric uint16       `yaml:"metric"` // 0 is the kernel's
}

// link joins two nodes by a veth pair, or by an emulated link where it has an impairment. All nodes may share an emulated link.
type link struct {
	Ends   []end       `yaml:"ends"`
	MTU    int         `yaml:"mtu"` // octets; 0 is 1500
	Impair *impairment `yaml:"impair"`
}

// emulates reports whether a link is emulated.
func (f *File) emulates() bool {
	return slices.ContainsFunc(f.Links, func(l link) bool { return l.Impair != nil })
}

// impairment is that of testnet, in both directions of each pair of ends.
type impairment struct {
	Delay  time.Duration `yaml:"delay"`
	Jitter time.Duration `yaml:"jitter"`
	Rate   uint64        `yaml:"rate"` // bit/s; 0 is unlimited
	Queue  time.Duration `yaml:"queue"`
	Loss   float64       `yaml:"loss"` // probability
}

type end struct {
	Node      string         `yaml:"node"`
	Interface string         `yaml:"interface"`
	Addresses []netip.Prefix `yaml:"addresses"`
}

// daemon is a process of the command loci. Control socket, pins and log are the experiment's own.
type daemon struct {
	Node   string `yaml:"node"`
	Config string `yaml:"config"`
	// Registrations is how many EID-prefixes a Map-Server must have before the rows begin.
	Registrations int `yaml:"registrations"`
	// BehindNAT says that the rows begin when an RTR has confirmed the daemon's registration.
	BehindNAT bool `yaml:"behind-nat"`
}

// row is one claim with its control.
type row struct {
	Number  int    `yaml:"number"`
	Title   string `yaml:"title"`
	Move    *move  `yaml:"move"` // after the control, before the claim
	Send    send   `yaml:"send"`
	Expect  expect `yaml:"expect"`
	Control struct {
		Change string `yaml:"change"` // the one thing that differs
		Send   send   `yaml:"send"`
		Expect expect `yaml:"expect"`
	} `yaml:"control"`
}

// move puts the interface of a node into another network: the other end of its link goes to another node.
type move struct {
	Node      string         `yaml:"node"`
	Interface string         `yaml:"interface"`
	To        end            `yaml:"to"`        // where the other end goes, and its name and addresses there
	Addresses []netip.Prefix `yaml:"addresses"` // in place of those that the interface had
	Routes    []route        `yaml:"routes"`    // of the node, by the interface
	// Loses is another interface of the node, which loses its carrier and its addresses Overlap after the move.
	Loses   string        `yaml:"loses"`
	Overlap time.Duration `yaml:"overlap"`
	// Within is how long after the move the claim may take to hold. The datagrams are sent again until then.
	Within time.Duration `yaml:"within"`
}

// send is UDP datagrams, of one flow each: their source ports differ.
type send struct {
	From        string     `yaml:"from"` // a node
	Source      netip.Addr `yaml:"source"`
	Destination netip.Addr `yaml:"destination"`
	Count       int        `yaml:"count"` // 0 is 3
	// Inside are LISP headers around the datagrams, the outermost first.
	Inside []encapsulation `yaml:"inside"`
}

// encapsulation is an outer IP header, UDP to port 4341, and a LISP header.
type encapsulation struct {
	Source      netip.Addr `yaml:"source"`
	Destination netip.Addr `yaml:"destination"`
	InstanceID  uint32     `yaml:"instance-id"`
}

// expect says where the datagrams of a send must be seen, where not, and what a daemon must count.
type expect struct {
	Seen   []point `yaml:"seen"`
	Unseen []point `yaml:"unseen"`
	Shares []point `yaml:"shares"` // each gets a share of the datagrams, and together they get all
	// Received and Unreceived are nodes whose socket must get all datagrams, or none.
	Received   []string `yaml:"received"`
	Unreceived []string `yaml:"unreceived"`
	Dropped    *dropped `yaml:"dropped"`
}

// point is an interface of a node and the form in which datagrams pass it. What a point does not name, it does not look at.
type point struct {
	Node        string     `yaml:"node"`
	Interface   string     `yaml:"interface"`
	Layers      *int       `yaml:"layers"`      // LISP headers around the datagram
	Source      netip.Addr `yaml:"source"`      // of the outermost header
	Destination netip.Addr `yaml:"destination"` // of the outermost header
	SourcePort  uint16     `yaml:"source-port"` // of the outermost UDP header
	Answer      bool       `yaml:"answer"`      // it looks at the answers in place of the datagrams
}

// dropped is how a daemon's drop counter must rise.
type dropped struct {
	Node   string `yaml:"node"`
	Reason string `yaml:"reason"` // as in docs/counters.md
}

const (
	defaultCount = 3
	// maxCount bounds what one row sends.
	maxCount = 1000
	// sightWait is how long datagrams may take to where they must be seen; it ends early when they are there.
	sightWait = 5 * time.Second
	// quietWait is how long is waited for datagrams where they must not be seen.
	quietWait = 200 * time.Millisecond
	// resendWait is how long datagrams may take after a move before others are sent: the first ones get lost.
	resendWait = 500 * time.Millisecond
	// unroutedWait is how long is waited where the node had no route for them.
	unroutedWait = 10 * time.Millisecond
)

// Parse reads one variant of a file.
func Parse(text []byte) (*File, error) {
	f := &File{}
	decoder := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict(), yaml.DisallowUnknownField())
	if err := decoder.Decode(f); err != nil {
		return nil, withPosition(err, text)
	}
	if err := decoder.Decode(&File{}); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one document")
	}
	return f, f.check(text)
}
