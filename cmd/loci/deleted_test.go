// SPDX-License-Identifier: Apache-2.0

package main_test

import (
	"context"
	"strings"
	"testing"
)

// TestDeletedLISPInterfaceIsNoError: it is there again within milliseconds, and the log says so in one line that is no error.
func TestDeletedLISPInterfaceIsNoError(t *testing.T) {
	n := newLISPNetwork(t)
	n.runAll()
	one, two := testSite{1}, testSite{2}
	n.ping("host1", one.host4(), two.host4(), 1)
	const times = 5
	told := func() int { return strings.Count(n.logs["xtr1"].String(), "the LISP interface was deleted") }
	for time := range times {
		link, err := n.at["xtr1"].Netlink().LinkByName("loci0")
		n.must(err)
		index := link.Attrs().Index
		n.must(n.at["xtr1"].Netlink().LinkDel(link))
		n.await("loci0 is there again", func(context.Context) bool {
			link, err := n.at["xtr1"].Netlink().LinkByName("loci0")
			return err == nil && link.Attrs().Index != index
		})
		// before the next one: two in a row could be made good, and told, together
		n.await("it is told", func(context.Context) bool { return told() == time+1 })
	}
	n.ping("xtr1", one.router6(), two.router6(), 3)
	for line := range strings.Lines(n.logs["xtr1"].String()) {
		if strings.Contains(line, "level=ERROR") {
			t.Errorf("in the log: %s", line)
		}
	}
}
