// SPDX-License-Identifier: Apache-2.0

package temptcp

// The file of parameters, and the addresses that follow from it.

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/goccy/go-yaml"
)

// Name is that of the experiment.
const Name = "te-mptcp"

//go:embed te-mptcp.yaml
var parametersFile []byte

// parameters are those of te-mptcp.yaml, which explains them.
type parameters struct {
	Name              string   `yaml:"name"`
	Description       string   `yaml:"description"`
	Origin            string   `yaml:"origin"`
	Seed              uint64   `yaml:"seed"`
	CongestionControl string   `yaml:"congestion-control"`
	ReceiveBuffers    []int    `yaml:"receive-buffers"` // SO_RCVBUF, octets
	SendBuffer        int      `yaml:"send-buffer"`     // SO_SNDBUF, octets
	Default           size     `yaml:"default"`
	Full              size     `yaml:"full"`
	Sources           []source `yaml:"sources"`
	Relays            []string `yaml:"relays"`
	Destination       string   `yaml:"destination"`
	Access            []access `yaml:"access"`
	Pairs             []pair   `yaml:"pairs"`
	Choose            struct {
		Candidates int     `yaml:"candidates"`
		Ratio      float64 `yaml:"ratio"`
	} `yaml:"choose"`
	Sweep sweep      `yaml:"sweep"`
	Judge thresholds `yaml:"judge"`
}

// size is how much is measured.
type size struct {
	Rounds      int           `yaml:"rounds"`
	Lasts       time.Duration `yaml:"lasts"` // each transfer
	SweepRounds int           `yaml:"sweep-rounds"`
}

// source is a site that sends. Its paths are named by the sites of their RTRs, the first one's first.
type source struct {
	Site  string   `yaml:"site"`
	Paths []string `yaml:"paths"`
}

type access struct {
	Site   string        `yaml:"site"`
	Rate   uint64        `yaml:"rate"` // bit/s
	Delay  time.Duration `yaml:"delay"`
	Queue  time.Duration `yaml:"queue"`
	Reason string        `yaml:"reason"`
}

// pair is what is between two sites.
type pair struct {
	Between []string      `yaml:"between"`
	From    time.Duration `yaml:"from"` // of the RTT
	To      time.Duration `yaml:"to"`
	Rate    uint64        `yaml:"rate"` // bit/s; 0 is unlimited
	Loss    float64       `yaml:"loss"` // probability
	Reason  string        `yaml:"reason"`
}

type sweep struct {
	Source      string          `yaml:"source"`
	Differences []time.Duration `yaml:"differences"`
}

type thresholds struct {
	GainFrom    float64 `yaml:"gain-from"`
	GainTo      float64 `yaml:"gain-to"`
	None        float64 `yaml:"none"`
	Marginal    float64 `yaml:"marginal"`
	NullShare   float64 `yaml:"null-share"`
	Alike       float64 `yaml:"alike"`
	Correlation float64 `yaml:"correlation"`
	MuchHigher  float64 `yaml:"much-higher"`
}

// mostPaths is how many each source has.
const mostPaths = 4

func readParameters(text []byte) (*parameters, error) {
	p := &parameters{}
	if err := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict(),
		yaml.DisallowUnknownField()).Decode(p); err != nil {
		return nil, err
	}
	return p, p.check()
}

// check says what is missing: each pair of sites needs its line with a reason.
func (p *parameters) check() error {
	var all []error
	sites := p.sites()
	for i, a := range sites {
		for _, b := range sites[:i] {
			if q := p.pair(a, b); q == nil || q.From <= 0 || q.To < q.From || q.Reason == "" {
				all = append(all, fmt.Errorf("%s and %s need an RTT and its reason", a, b))
			}
		}
	}
	for _, s := range p.Sources {
		if len(s.Paths) != mostPaths || s.Paths[0] != s.Site {
			all = append(all, fmt.Errorf("%s: want %d paths, the first by its own RTR", s.Site, mostPaths))
		}
		for _, relay := range s.Paths {
			if relay == p.Destination || !slices.Contains(sites, relay) {
				all = append(all, fmt.Errorf("%s: %s has no RTR", s.Site, relay))
			}
		}
		if a := p.access(s.Site); a == nil || a.Reason == "" {
			all = append(all, fmt.Errorf("%s needs an access link and its reason", s.Site))
		}
	}
	if want := len(sites) * (len(sites) - 1) / 2; len(p.Pairs) != want {
		all = append(all, fmt.Errorf("%d pairs: want %d", len(p.Pairs), want))
	}
	if p.source(p.Sweep.Source) == nil {
		all = append(all, fmt.Errorf("sweep: %q is no source", p.Sweep.Source))
	}
	return errors.Join(all...)
}

// sites are all: sources, RTRs only, destination.
func (p *parameters) sites() (all []string) {
	for _, s := range p.Sources {
		all = append(all, s.Site)
	}
	return append(append(all, p.Relays...), p.Destination)
}

// withRTR are the sites that have an RTR.
func (p *parameters) withRTR() []string {
	all := p.sites()
	return all[:len(all)-1]
}

func (p *parameters) source(site string) *source {
	if i := slices.IndexFunc(p.Sources, func(s source) bool { return s.Site == site }); i >= 0 {
		return &p.Sources[i]
	}
	return nil
}

func (p *parameters) access(site string) *access {
	if i := slices.IndexFunc(p.Access, func(a access) bool { return a.Site == site }); i >= 0 {
		return &p.Access[i]
	}
	return nil
}

func (p *parameters) pair(a, b string) *pair {
	i := slices.IndexFunc(p.Pairs, func(q pair) bool {
		return slices.Equal(q.Between, []string{a, b}) || slices.Equal(q.Between, []string{b, a})
	})
	if i < 0 {
		return nil
	}
	return &p.Pairs[i]
}

// drawn are the RTTs of all pairs, in the order of the file.
type drawn []time.Duration

// draw draws the RTTs of a round: equal seeds and rounds have equal ones.
func (p *parameters) draw(round int) drawn {
	random := rand.New(rand.NewPCG(p.Seed, uint64(round)))
	all := make(drawn, len(p.Pairs))
	for i, q := range p.Pairs {
		all[i] = q.From + time.Duration(random.Int64N(int64(q.To-q.From)+1))
	}
	return all
}

// rtt is that between two sites, with their access links.
func (p *parameters) rtt(d drawn, a, b string) time.Duration {
	sum := time.Duration(0)
	for i, q := range p.Pairs {
		if slices.Contains(q.Between, a) && slices.Contains(q.Between, b) {
			sum = d[i]
		}
	}
	for _, site := range []string{a, b} {
		if link := p.access(site); link != nil {
			sum += 2 * link.Delay
		}
	}
	return sum
}

// pathRTT is that from a source to the destination by the RTR of a site.
func (p *parameters) pathRTT(d drawn, from, by string) time.Duration {
	if from == by {
		return p.rtt(d, from, p.Destination)
	}
	return p.rtt(d, from, by) + p.rtt(d, by, p.Destination)
}

// number is that of a site in addresses, from 1.
func (p *parameters) number(site string) int { return slices.Index(p.sites(), site) + 1 }

func address(a, b, c, d int) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(a), byte(b), byte(c), byte(d)})
}

// exchange is the address of a site where all meet.
func (p *parameters) exchange(site string) netip.Addr { return address(172, 31, 0, p.number(site)) }

// xtr is the RLOC of a site's xTR.
func (p *parameters) xtr(site string) netip.Addr {
	if site == p.Destination {
		return p.exchange(site)
	}
	return address(172, 16, p.number(site), 2)
}

// rtr is the RLOC of a site's RTR.
func (p *parameters) rtr(site string) netip.Addr {
	if p.source(site) == nil {
		return p.exchange(site)
	}
	return address(172, 17, p.number(site), 2)
}

// siteOfRTR is the site of an RTR.
func (p *parameters) siteOfRTR(rloc netip.Addr) string {
	for _, site := range p.withRTR() {
		if p.rtr(site) == rloc {
			return site
		}
	}
	return ""
}

// gateway is the xTR of a site for its host.
func (p *parameters) gateway(site string) netip.Addr { return address(10, p.number(site), 0, 1) }

// firstEID is the last octet of the EID without a path; those with 1 to mostPaths follow.
const firstEID = 10

// eids are those between which a source transfers over so many paths; 0 is without RTR.
func (p *parameters) eids(site string, paths int) (from, to netip.Addr) {
	n := p.number(site)
	return address(10, n, 0, firstEID+paths), address(10, p.number(p.Destination), n, firstEID+paths)
}

// destinationEIDs has all EIDs of the destination.
func (p *parameters) destinationEIDs() netip.Prefix {
	return netip.PrefixFrom(address(10, p.number(p.Destination), 0, 0), 16)
}
