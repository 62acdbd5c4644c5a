// SPDX-License-Identifier: Apache-2.0

package mapsock

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"loci/dataplane"
)

// A list of another message cannot be continued by the first.
func TestContinuedListAlone(t *testing.T) {
	var m Message
	if err := m.Join(&Message{continues: true, Lists: make([]dataplane.AccessList, 1)}); !errors.Is(err, unix.EINVAL) {
		t.Errorf("joined: %v", err)
	}
	if err := m.Join(&Message{roleContinues: true, Roles: make([]dataplane.RolePolicy, 1)}); !errors.Is(err, unix.EINVAL) {
		t.Errorf("joined: %v", err)
	}
	m.Roles = []dataplane.RolePolicy{{Instance: 1}}
	if err := parseRole(&m, order.AppendUint32(order.AppendUint32(nil, listContinued), 2)); err == nil {
		t.Error("a policy continues that of another Instance-ID")
	}
	if err := m.Join(&Message{roleContinues: true, Roles: make([]dataplane.RolePolicy, 1)}); !errors.Is(err, unix.EINVAL) {
		t.Errorf("joined with another Instance-ID: %v", err)
	}
	m.Lists = []dataplane.AccessList{{Instance: 1}}
	if err := parseList(&m, order.AppendUint32(order.AppendUint32(nil, listContinued), 2)); err == nil {
		t.Error("a list continues that of another Instance-ID")
	}
}
