// SPDX-License-Identifier: Apache-2.0

package mapsock

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"loci/lisp"
)

// Of an engine that cannot tell, or for no locators, there is nothing.
func TestPathStatesOfNothing(t *testing.T) {
	c := serve(t, Options{}).dial(t)
	paths, err := c.PathStates([]lisp.RLOC{peerRLOC, ownRLOC})
	if err != nil || len(paths) != 2 || paths[0] != (PathState{RLOC: peerRLOC}) || paths[1].RLOC != ownRLOC {
		t.Errorf("%+v, %v", paths, err)
	}
	if paths, err := c.PathStates(nil); err != nil || len(paths) > 0 {
		t.Errorf("of no locators: %+v, %v", paths, err)
	}
	if _, err := c.ask(&Message{Type: TypeGetPaths}); !errors.Is(err, unix.EINVAL) {
		t.Errorf("a request without locators is answered %v", err)
	}
}
