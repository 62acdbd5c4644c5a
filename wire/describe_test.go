// SPDX-License-Identifier: Apache-2.0

package wire

// One line per message, with every field in it, so that tables of expected
// meanings can be read and compared as text. Never used outside tests.

import (
	"fmt"
	"strings"
)

func describe(m Message) string {
	switch m := m.(type) {
	case *MapRequest:
		return describeRequest(m)
	case *MapReply:
		return line("Map-Reply", names(m.Probe, "P", m.EchoNonce, "E", m.Security, "S"), hex64(m.Nonce), records(m.Records),
			optional(m.Security, fmt.Sprintf("security %x", m.SecurityData)))
	case *MapRegister:
		return line("Map-Register", names(m.ProxyReply, "P", m.Security, "S", m.XTRIDPresent, "I", m.EIDNotify, "E", m.UseTTL, "T",
			m.MergeRequest, "a", m.MobileNode, "m", m.WantMapNotify, "M"), hex64(m.Nonce), authentication(m.KeyID, m.AlgorithmID, m.Authentication),
			records(m.Records), identity(m.XTRIDPresent, m.XTRID, m.SiteID))
	case *MapNotify:
		return describeNotify("Map-Notify", m)
	case *MapNotifyAck:
		return describeNotify("Map-Notify-Ack", (*MapNotify)(m))
	case *EncapsulatedControlMessage:
		return line("ECM", names(m.Security, "S", m.DDTOriginated, "D", m.ToETR, "E", m.ToMapServer, "M", m.ForRTR, "R", m.RelayedByRTR, "N"),
			optional(m.Security, fmt.Sprintf("security %x", m.AuthData)), describeInner(&m.Inner))
	case *SharedExtension:
		return fmt.Sprintf("Shared-Extension %d, %d octets", m.SubType, len(m.Data))
	}
	return fmt.Sprintf("%T", m)
}

func line(parts ...string) string {
	kept := parts[:0]
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, " ")
}

func names(pairs ...any) string {
	text := ""
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i].(bool) {
			text += pairs[i+1].(string)
		}
	}
	return text
}

func hex64(nonce uint64) string { return fmt.Sprintf("0x%x", nonce) }

func optional(present bool, text string) string {
	if !present {
		return ""
	}
	return text
}

func authentication(key, algorithm uint8, data []byte) string {
	return fmt.Sprintf("key %d/%d/%x", key, algorithm, data)
}

func identity(present bool, xtr [16]byte, site uint64) string {
	return optional(present, fmt.Sprintf("xtr %x site %d", xtr, site))
}

func records(list []Record) string {
	texts := make([]string, len(list))
	for i := range list {
		texts[i] = describeRecord(&list[i])
	}
	return strings.Join(texts, " ")
}

func describeRecord(r *Record) string {
	text := fmt.Sprintf("{%s/%d %dmin %s%s v%d", show(r.EID), r.MaskLen, r.TTLMinutes, r.Action, optional(r.Authoritative, " A"), r.Version)
	for _, l := range r.Locators {
		text += fmt.Sprintf(", %s %d/%d %d/%d %s", show(l.Address), l.Priority, l.Weight, l.MulticastPriority, l.MulticastWeight,
			names(l.Local, "L", l.Probed, "p", l.Reachable, "R"))
	}
	return strings.TrimRight(text, " ") + "}"
}

func describeRequest(m *MapRequest) string {
	text := line("Map-Request", names(m.Authoritative, "A", m.MapDataPresent, "M", m.Probe, "P", m.SMR, "S", m.PITR, "p", m.SMRInvoked, "s",
		m.MobileNode, "m", m.XTRIDPresent, "I", m.LocalXTR, "L", m.DontReply, "D"), hex64(m.Nonce), "from", show(m.SourceEID), "itr")
	for _, a := range m.ITRRLOCs {
		text += " " + show(a)
	}
	for _, r := range m.Records {
		text += fmt.Sprintf(" for%s %s/%d", optional(r.Notify, " N"), show(r.EID), r.MaskLen)
	}
	if m.MapReplyRecord != nil {
		text += " with " + describeRecord(m.MapReplyRecord)
	}
	return line(text, identity(m.XTRIDPresent, m.XTRID, m.SiteID))
}

func describeNotify(name string, m *MapNotify) string {
	return line(name, names(m.XTRIDPresent, "I"), hex64(m.Nonce), authentication(m.KeyID, m.AlgorithmID, m.Authentication), records(m.Records),
		identity(m.XTRIDPresent || m.XTRIDUnflagged, m.XTRID, m.SiteID))
}

func describeInner(p *InnerPacket) string {
	message, err := Parse(p.Message)
	text := fmt.Sprintf("%v", err)
	if err == nil {
		text = describe(message)
	}
	return fmt.Sprintf("%s > %s ttl %d [%s]", p.Source, p.Destination, p.TTL, text)
}
