// SPDX-License-Identifier: Apache-2.0

package datapath

// How many checks of others this host has answered: its kernel counts the messages (RFC 1213, RFC 2466). Who asked is
// not counted.

import (
	"bytes"
	"os"
	"slices"
	"strconv"
)

// The messages by which a router or host answers an echo request.
var (
	answers4 = []string{"OutTimeExcds", "OutDestUnreachs", "OutEchoReps"}
	answers6 = []string{"Icmp6OutTimeExcds", "Icmp6OutDestUnreachs", "Icmp6OutEchoReplies"}
)

// answersSent are the totals by family; false where the kernel does not tell them.
func answersSent() (v4, v6 uint64, ok bool) {
	text4, err4 := os.ReadFile("/proc/self/net/snmp")
	text6, err6 := os.ReadFile("/proc/self/net/snmp6")
	v4, ok = sumOf4(text4)
	return v4, sumOf6(text6), ok && err4 == nil && (err6 == nil || os.IsNotExist(err6)) // it is absent without IPv6
}

// sumOf4 reads /proc/net/snmp: for each protocol a line of names, and one of values.
func sumOf4(text []byte) (sum uint64, ok bool) {
	var names [][]byte
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) == 0 || string(fields[0]) != "Icmp:" {
			continue
		}
		if names == nil {
			names = fields
			continue
		}
		for i := range min(len(names), len(fields)) {
			if slices.Contains(answers4, string(names[i])) {
				n, _ := strconv.ParseUint(string(fields[i]), 10, 64)
				sum += n
			}
		}
		return sum, true
	}
	return 0, false
}

// sumOf6 reads /proc/net/snmp6: a line for each counter.
func sumOf6(text []byte) (sum uint64) {
	for line := range bytes.Lines(text) {
		if fields := bytes.Fields(line); len(fields) == 2 && slices.Contains(answers6, string(fields[0])) {
			n, _ := strconv.ParseUint(string(fields[1]), 10, 64)
			sum += n
		}
	}
	return sum
}
