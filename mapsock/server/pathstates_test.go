// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"loci/lisp"
	"loci/mapsock"
)

// Of an engine that cannot tell, or for no locators, there is nothing.
func TestPathStatesOfNothing(t *testing.T) {
	s := serve(t, Options{})
	c := s.dial(t)
	paths, err := c.PathStates([]lisp.RLOC{peerRLOC, ownRLOC})
	if err != nil || len(paths) != 2 || paths[0] != (mapsock.PathState{RLOC: peerRLOC}) || paths[1].RLOC != ownRLOC {
		t.Errorf("%+v, %v", paths, err)
	}
	behindNAT := peerRLOC.WithPort(40001)
	if paths, err := c.PathStates([]lisp.RLOC{behindNAT}); err != nil || len(paths) != 1 || paths[0].RLOC != behindNAT {
		t.Errorf("behind a NAT: %+v, %v", paths, err)
	}
	if paths, err := c.PathStates(nil); err != nil || len(paths) > 0 {
		t.Errorf("of no locators: %+v, %v", paths, err)
	}
	m := s.monitor(t, mapsock.HearOwn)
	send(t, m, &mapsock.Message{Type: mapsock.TypeGetPaths})
	if err := next(t, m, mapsock.TypeGetPaths).Err(); !errors.Is(err, unix.EINVAL) {
		t.Errorf("a request without locators is answered %v", err)
	}
}
