// SPDX-License-Identifier: Apache-2.0

// Package mapcmd is what loci map and loci mapstat do: OpenLISP's two commands over a
// mapping socket (Iannone, Saucez, Bonaventure: "Implementing the Locator/ID Separation
// Protocol: Design and Experience", s.4.2, Figures 6 and 7). It reads the words of a
// command line, sends messages, and prints answers. It never opens an engine and keeps
// nothing: whatever it tells, the data plane has told.
package mapcmd

import (
	"context"
	"errors"
	"io"
	"time"

	"loci/internal/errorkind"
	"loci/internal/jsondoc"
)

// DefaultSocket is the mapping socket that is asked when --socket names no other.
const DefaultSocket = "/run/loci/map.sock"

// ErrHelp is returned by Map and Mapstat when the words ask for help.
var ErrHelp = errors.New("help is wanted")

// ErrUsage is wrapped by errors about the words, ErrNoDataPlane where no data plane answers.
var (
	ErrUsage       = errors.New("wrong usage")
	ErrNoDataPlane = errors.New("no data plane answers")
)

// Terminal is where a command prints.
type Terminal struct {
	Out, Err io.Writer
	Now      func() time.Time // the clock; time.Now when nil
}

func (t Terminal) now() time.Time {
	if t.Now == nil {
		return time.Now()
	}
	return t.Now()
}

// indented prints one JSON document for people and programs.
func (t Terminal) indented(v any) error { return jsondoc.WriteIndented(t.Out, v) }

// basics are the words that both commands know beside OpenLISP's.
type basics struct {
	socket string
	asJSON bool
}

// Map carries out map: words are what stands behind its name. It returns when that is
// done, or for monitor when the context ends. The error is ErrHelp, or says what is
// wrong with the words, or what was refused and what to do about it.
func Map(ctx context.Context, words []string, t Terminal) error {
	request, err := parseMap(words)
	if err != nil {
		return errorkind.Mark(err, ErrUsage)
	}
	request.warn(t.Err)
	if request.has('d') || request.has('t') {
		return request.rehearse(t.Out)
	}
	switch request.verb {
	case verbMonitor:
		return request.monitor(ctx, t)
	case verbFlush:
		return request.flush(ctx, t)
	}
	return request.exchange(ctx, t)
}

// Mapstat carries out mapstat; see Map.
func Mapstat(ctx context.Context, words []string, t Terminal) error {
	wanted, err := parseMapstat(words)
	if err != nil {
		return errorkind.Mark(err, ErrUsage)
	}
	c, err := dial(ctx, wanted.socket, 0)
	if err != nil {
		return err
	}
	defer c.close()
	switch {
	case wanted.tables:
		err = wanted.showTables(c, t)
	case wanted.statistics:
		err = wanted.showStatistics(c, t)
	}
	if err == nil && wanted.zero {
		err = zeroCounters(c)
	}
	return err
}
