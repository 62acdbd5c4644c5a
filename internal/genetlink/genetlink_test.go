// SPDX-License-Identifier: Apache-2.0

package genetlink

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFind(t *testing.T) {
	family, err := Find(unix.ETHTOOL_GENL_NAME)
	if err != nil {
		t.Fatal(err)
	}
	if family.ID <= unix.GENL_ID_CTRL || family.Groups[unix.ETHTOOL_MCGRP_MONITOR_NAME] == 0 {
		t.Errorf("found %+v", family)
	}
	if _, err := Find("no-such-family"); !errors.Is(err, unix.ENOENT) {
		t.Errorf("a family that is not there: %v", err)
	}
}

func TestEachAttributeTakesAnyOctets(t *testing.T) {
	for _, message := range [][]byte{nil, {1}, {1, 2, 3, 4, 0xFF, 0xFF, 1, 0}, {1, 2, 3, 4, 3, 0, 1, 0}} {
		if err := EachAttribute(message, HeaderOctets, func(uint16, []byte) { t.Errorf("an attribute of %x", message) }); err == nil {
			t.Errorf("%x: no error", message)
		}
	}
}
