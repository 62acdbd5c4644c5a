// SPDX-License-Identifier: Apache-2.0

package mapcmd

// map monitor: every message, one line each, as it comes. A reader that is not fast
// enough is told how much was lost and holds up no other.

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"loci/mapsock"
)

// hearing is what monitor listens to; with -v also what others read.
func (r *mapRequest) hearing() mapsock.Hearing {
	if r.has('v') {
		return mapsock.DefaultHearing | mapsock.HearReads
	}
	return mapsock.DefaultHearing
}

func (r *mapRequest) monitor(ctx context.Context, t Terminal) error {
	c, err := dial(ctx, r.socket, r.hearing())
	if err != nil {
		return err
	}
	defer c.close()
	for {
		m, err := c.socket.Next()
		var format *mapsock.FormatError
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &format):
			fmt.Fprintf(t.Err, "map: a message that cannot be read: %s\n", err)
			continue
		case err != nil:
			return c.explainEnd(err)
		}
		if err := r.printHeard(t, m); err != nil {
			return err
		}
	}
}

func (r *mapRequest) printHeard(t Terminal, m *mapsock.Message) error {
	now := t.now()
	if r.asJSON {
		d := documentOf(m)
		d.At = &now
		return encodeLine(t.Out, d)
	}
	line := now.Format("15:04:05.000000 ") + heardText(m)
	if r.has('v') {
		line += fmt.Sprintf(" pid %d seq %d", m.PID, m.Seq)
	}
	_, err := fmt.Fprintln(t.Out, line)
	return err
}

// heardText is a message in a line.
func heardText(m *mapsock.Message) string {
	parts := []string{m.Type.String()}
	if m.HasEID {
		parts = append(parts, "EID "+eidText(m))
	}
	if m.Has(mapsock.AttributeSource) {
		parts = append(parts, "from "+m.Source.String())
	}
	if m.Has(mapsock.AttributeFlow) {
		parts = append(parts, "flow "+m.Flow.String())
	}
	if m.Type == mapsock.TypeSubflow {
		parts = append(parts, directionText(m))
	}
	if m.Has(mapsock.AttributeInterface) && m.Interface != "" {
		parts = append(parts, "on "+m.Interface)
	}
	if m.Has(mapsock.AttributeLocatorState) {
		parts = append(parts, m.LocatorState.String())
	}
	if len(m.Locators) > 0 {
		parts = append(parts, rlocList(m.Locators, m.HasEID))
	}
	if m.Flags&mapsock.FlagNegative != 0 && m.Has(mapsock.AttributeAction) {
		parts = append(parts, "action "+m.Action.String())
	}
	parts = append(parts, numbersText(m)...)
	if flags := m.Flags & (mapFlags | mapsock.FlagAll); flags != 0 {
		parts = append(parts, "flags: "+flags.String())
	}
	if err := m.Err(); err != nil {
		parts = append(parts, "error: "+err.Error())
	}
	return strings.Join(parts, " ")
}

// directionText says where the packet of a subflow went.
func directionText(m *mapsock.Message) string {
	if m.Flags&mapsock.FlagFromCore != 0 {
		return "from the core"
	}
	return "to the core"
}

func numbersText(m *mapsock.Message) []string {
	var all []string
	for _, known := range []struct {
		attribute mapsock.Attribute
		format    string
		value     any
	}{
		{mapsock.AttributeStatusBits, "Locator-Status-Bits %#x", m.StatusBits},
		{mapsock.AttributeReceivedVersion, "received Map-Version %d", m.ReceivedVersion},
		{mapsock.AttributeOtherVersion, "other Map-Version %d", m.OtherVersion},
		{mapsock.AttributeICMP, "ICMP type %d", m.ICMPType},
		{mapsock.AttributeMTU, "mtu %d", m.MTU},
		{mapsock.AttributeNonce, "nonce %#x", m.Nonce},
		{mapsock.AttributeLost, "%d messages, which this monitor did not read in time", m.Lost},
	} {
		if m.Has(known.attribute) {
			all = append(all, fmt.Sprintf(known.format, known.value))
		}
	}
	return all
}
