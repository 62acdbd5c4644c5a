// SPDX-License-Identifier: Apache-2.0

package mapcmd

// What map prints: a mapping as in Figure 6 of the paper, and a line for each change.

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"loci/lisp"
	"loci/mapsock"
)

// mapFlags are those that describe a mapping; the others concern the message.
const mapFlags = mapsock.FlagUp | mapsock.FlagStatic | mapsock.FlagDatabase | mapsock.FlagVersioning | mapsock.FlagStatusBits |
	mapsock.FlagNegative | mapsock.FlagExpired | mapsock.FlagDone

// printMapping prints a mapping as in Figure 6.
func (r *mapRequest) printMapping(out io.Writer, m *mapsock.Message) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Mapping for EID: %s\n", r.eidWord)
	writeEID(&b, m.Prefix)
	for _, l := range preferredFirst(m.Locators) {
		b.WriteString("RLOC Addr: " + rlocText(&l.Locator) + "\n")
		if r.has('v') {
			b.WriteString("\t" + metricsText(&l) + "\n")
		}
	}
	if m.Flags&mapsock.FlagNegative != 0 {
		fmt.Fprintf(&b, "action: %s\n", m.Action)
	}
	if m.Flags&mapsock.FlagVersioning != 0 {
		fmt.Fprintf(&b, "version: %d\n", m.MapVersion)
	}
	if r.has('v') {
		writeLifetime(&b, m)
	}
	fmt.Fprintf(&b, "flags: %s\n", m.Flags&mapFlags)
	_, err := io.WriteString(out, b.String())
	return err
}

// preferredFirst is the order of the paper's section 4.1.2: by priority. Of equal ones the
// order of RFC 9301 s.5.5 stays, in which the data plane tells them.
func preferredFirst(locators []mapsock.Locator) []mapsock.Locator {
	return slices.SortedStableFunc(slices.Values(locators), func(a, b mapsock.Locator) int { return cmp.Compare(a.Priority, b.Priority) })
}

func writeEID(b *strings.Builder, prefix lisp.Prefix) {
	if instance := prefix.Instance(); instance != 0 {
		fmt.Fprintf(b, "Instance-ID: %s\n", instance)
	}
	fmt.Fprintf(b, "EID: %s\n", prefix.EID())
	if !prefix.EID().IsIP() {
		fmt.Fprintf(b, "EID mask length: %d\n", prefix.Bits())
		return
	}
	mask := net.CIDRMask(prefix.Bits(), prefix.EID().BitLen())
	fmt.Fprintf(b, "EID mask: %s\n", net.IP(mask))
}

// rlocText is an RLOC with its family, as OpenLISP prints it, or a path with that of its first hop.
func rlocText(l *lisp.Locator) string { return familyOfRLOC(l.RLOC).String() + " " + pathText(l) }

func metricsText(l *mapsock.Locator) string {
	text := fmt.Sprintf("priority %d weight %d", l.Priority, l.Weight)
	if letters := locatorLetters(l); letters != "" {
		text += " flags " + letters
	}
	if l.MTU != 0 {
		text += fmt.Sprintf(" mtu %d", l.MTU)
	}
	return text
}

// locatorLetters are OpenLISP's: Up, on a local Interface, Tx nonce, Rx nonce.
func locatorLetters(l *mapsock.Locator) string {
	var letters []byte
	for _, known := range []struct {
		letter byte
		on     bool
	}{{'U', l.Reachable}, {'i', l.Interface}, {'t', l.HasTxNonce}, {'r', l.HasRxNonce}} {
		if known.on {
			letters = append(letters, known.letter)
		}
	}
	return string(letters)
}

func writeLifetime(b *strings.Builder, m *mapsock.Message) {
	if m.Has(mapsock.AttributeTTL) {
		fmt.Fprintf(b, "TTL: %d minutes\n", m.TTLMinutes)
	}
	for _, known := range []struct {
		attribute mapsock.Attribute
		name      string
		at        time.Time
	}{
		{mapsock.AttributeCreated, "created", m.Created},
		{mapsock.AttributeExpires, "expires", m.Expires},
		{mapsock.AttributeLastUsed, "last used", m.Usage.LastUsedAt},
	} {
		if m.Has(known.attribute) && !known.at.IsZero() {
			fmt.Fprintf(b, "%s: %s\n", known.name, known.at.UTC().Format(time.RFC3339))
		}
	}
	if m.Has(mapsock.AttributePackets) {
		fmt.Fprintf(b, "packets: %d, octets: %d\n", m.Usage.Packets, m.Usage.Octets)
	}
}

// printDone prints one line about a change, as route(8) does, and with -v the flags.
func (r *mapRequest) printDone(out io.Writer, m *mapsock.Message) error {
	line := m.Type.String() + " EID " + m.Prefix.String()
	if rlocs := rlocList(m.Locators, r.has('v')); rlocs != "" {
		line += ": " + rlocs
	}
	if r.has('v') {
		line += " flags: " + (m.Flags & mapFlags).String()
	}
	_, err := fmt.Fprintln(out, line)
	return err
}

func rlocList(locators []mapsock.Locator, metrics bool) string {
	var all []string
	for i := range locators {
		text := "RLOC " + rlocText(&locators[i].Locator)
		if metrics {
			text += " " + metricsText(&locators[i])
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}
