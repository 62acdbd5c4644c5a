// SPDX-License-Identifier: Apache-2.0

// What the demo found, as one JSON object.

package demo

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"loci/internal/jsondoc"
	"loci/internal/testnet"
	"loci/lab"
)

// Report is the result of a run. Its keys are an interface: they are added to, not changed.
type Report struct {
	Worked   bool              `json:"worked"`
	Error    string            `json:"error"`
	Problems []testnet.Problem `json:"problems"` // why the demo cannot run here
	Version  string            `json:"version"`
	Kernel   string            `json:"kernel"`
	Took     jsondoc.Seconds   `json:"took_seconds"`
	Network  string            `json:"network"` // prefix of the namespaces' names, when they were kept
	Capture  string            `json:"capture"` // the file, when one was asked for
	Pairs    []Pair            `json:"pairs"`
	Move     *MoveReport       `json:"move"` // of --move, which does nothing with the pairs
}

// Pair is what one pair of address families did, from host-a to host-b. Times count from the moment when host-a sent its
// first packet, as captures on the links saw them.
type Pair struct {
	Name          string `json:"name"` // EID family in RLOC family
	PingsSent     int    `json:"pings_sent"`
	PingsReceived int    `json:"pings_received"`

	MapRequest  jsondoc.Seconds `json:"map_request_seconds"`  // the ITR's Map-Request entered the core
	MapReply    jsondoc.Seconds `json:"map_reply_seconds"`    // its Map-Reply entered the core
	FirstPacket jsondoc.Seconds `json:"first_packet_seconds"` // the first packet, which had to wait for the mapping, reached host-b
	RoundTrip   jsondoc.Seconds `json:"round_trip_seconds"`   // median of all pings

	TCPBitsPerSecond     float64 `json:"tcp_bits_per_second"`     // median of the rounds, at the receiver
	RoutingBitsPerSecond float64 `json:"routing_bits_per_second"` // the same transfer, plainly routed
	TCPRatio             float64 `json:"tcp_ratio_to_routing"`
}

// begin fills in what is known before anything is done.
func (r *Report) begin(version string) {
	r.Version = version
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		r.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	r.Pairs = make([]Pair, len(pairNames))
	for i, name := range pairNames {
		r.Pairs[i].Name = name
	}
}

// finish fills in how it ended.
func (r *Report) finish(err error) {
	r.Worked = err == nil
	if err != nil {
		r.Error = err.Error()
	}
	var preflight *lab.PreflightError
	if errors.As(err, &preflight) {
		r.Problems = preflight.Problems
	}
}

func (r *Report) print(out io.Writer) error {
	if err := jsondoc.WriteIndented(out, r); err != nil {
		return fmt.Errorf("print the report: %w", err)
	}
	return nil
}
