// SPDX-License-Identifier: Apache-2.0

package plan

// Which changes a reload may make, and whether a new plan differs from the current one.

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"loci/config"
)

// NeedsRestart names changes that a running daemon cannot make, whose data plane was made for so many mappings.
func NeedsRestart(current, fresh Plan, madeFor int) error {
	old, to := current.Config, fresh.Config
	for _, c := range []struct {
		what    string
		differs bool
	}{
		{"control.socket", old.Control.Socket != to.Control.Socket},
		{"control.port", old.Control.Port != to.Control.Port},
		{"control.addresses", !slices.Equal(old.Control.Addresses, to.Control.Addresses)},
		{"map-server.state-directory", old.StateDirectory() != to.StateDirectory()},
		{"etr.nonce-file", old.NonceFile() != to.NonceFile()},
		{"datapath", !reflect.DeepEqual(fixedDatapath(old.Datapath), fixedDatapath(to.Datapath))},
		{"logging.format", old.Logging.Format != to.Logging.Format},
		{"the first role that forwards packets, or its removal,", old.UsesDataPlane() != to.UsesDataPlane()},
		// The kernel's tables are made once; a restart takes them over as they are.
		{"itr.map-cache.limit, or of etr.local-eids, beyond what the data plane was made for, and a clean stop with --detach,", fresh.MappingLimit() > madeFor},
	} {
		if c.differs {
			return fmt.Errorf("a change of %s needs a restart: nothing was changed", c.what)
		}
	}
	return nil
}

// fixedDatapath is the part of the section that a running data plane keeps.
func fixedDatapath(d config.Datapath) config.Datapath {
	d.AccessLists, d.Encapsulations, d.SourceCheck, d.RecursionDepth, d.Engine = nil, nil, "", 0, ""
	return d
}

// CheckNewWaits refuses a reload that names interfaces which are not there, unless the
// current configuration named them as well, and one that would leave this router
// without an RLOC: those are mistakes more often than patience.
func CheckNewWaits(current, fresh Plan) error {
	named := InterfaceNames(current.Config)
	unreachable := len(current.Settings.LocalRLOCs) > 0 && fresh.WaitsForRLOC()
	var errs []error
	for _, w := range fresh.waits {
		if unreachable || w.link != "" && !slices.Contains(named, w.link) {
			errs = append(errs, w.problem)
		}
	}
	return errors.Join(errs...)
}

// SameInForce reports whether two plans of one configuration mean the same to the Node
// and to the data plane.
func (p Plan) SameInForce(o Plan) bool {
	return reflect.DeepEqual(p.Control, o.Control) && reflect.DeepEqual(p.Settings, o.Settings)
}
