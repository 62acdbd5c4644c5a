#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes golden.json: packets, and what a LISP tunnel router makes of each of them.

Needs scapy (Debian: python3-scapy) and is run by hand: the table is committed. Packets are built and expected
packets are composed by scapy and by the definitions of the RFCs and of bpf/abi.h (flow hash), never by Loci's own
code, so that the table is a second opinion on package forward and on the programs in bpf/, which both run it.

A case: hook says where the packet is seen: site (came from a host), core (came from the core), local (this system
sends it), tap (this system sends it and routes lead it to LISP), released (a site's packet that has waited).
verdict: pass, native, drop (with reason), wait, too-big (with largest_inner), encapsulate, relay (decapsulated and
encapsulated again), decapsulate (forwarded, so its TTL is one less), stack (decapsulated, for this system itself to treat
because its TTL is at its end). roles: those that the router has beside ITR and ETR, by its policies. inner: of a packet from
the core that is not for the site, what waits, is answered, or is left to the stack to send. relayed: what is released is an RTR's.
proxied: what is encapsulated or waits is a PITR's.
The nonce of expected packets is 0: whoever compares masks its three octets, unless N is clear or the case has exact_nonce.
settings: words for what is off by default. hints: what the control plane is told, with two values. Before a case nothing is
remembered of other routers, but peer: the state of Echo-Nonce with an RLOC, and stale_events: how often an RLOC was reported.
owes: the nonce whose echo the RLOC waits for afterwards. subflow: the TCP header that the control plane is told, with
the setting subflows, of a packet that begins or ends a connection which may be bound to a path.
"""
import json
import struct
from pathlib import Path

from scapy.all import (
    AH, ESP, GRE, ICMP, IP, IPv6, SCTP, TCP, UDP, ICMPv6EchoRequest, ICMPv6PacketTooBig, IPOption_RR,
    IPOption_Router_Alert, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, IPv6ExtHdrRouting, PadN, Raw,
)

OWN4, OWN6 = "192.0.2.1", "2001:db8:ff00::1"
PEER4, PEER6 = "192.0.2.2", "2001:db8:ff00::2"
MTU = 1500


def locator(rloc, priority=1, weight=100):
    return {"rloc": rloc, "priority": priority, "weight": weight}


def path(*hops, next=0, priority=1, weight=100):
    """A locator of several hops; packets are sent to hop number next."""
    return {**locator(hops[0], priority, weight), "behind": list(hops[1:]), "next": next}


def flow(source, destination, port, *hops, instance=0):
    """A TCP flow to port 443 that is bound to a path."""
    return {"instance": instance, "source": source, "destination": destination, "protocol": 6, "ports": [port, 443], "path": list(hops)}


ROUTER = {
    "local_rlocs": [OWN4, OWN6],
    "path_mtu": MTU,
    "unreachable": ["198.51.100.1"],
    "database": [
        "10.1.0.0/24", "10.1.128.0/17", "2001:db8:1::/64",
        "[7]10.7.0.0/24", "[7]2001:db8:7::/64", "[16777214]10.7.0.0/24",
    ],
    "map_cache": [
        {"prefix": "10.2.0.0/24", "locators": [locator(PEER4)]},
        {"prefix": "10.3.0.0/24", "locators": [locator(PEER6)]},
        {"prefix": "2001:db8:2::/64", "locators": [locator(PEER4)]},
        {"prefix": "2001:db8:3::/64", "locators": [locator(PEER6)]},
        {"prefix": "[7]10.2.0.0/24", "locators": [locator(PEER6)]},
        {"prefix": "[7]2001:db8:2::/64", "locators": [locator(PEER4)]},
        {"prefix": "[16777214]10.2.0.0/24", "locators": [locator(PEER4)]},
        {"prefix": "10.4.0.0/24", "action": "no-action"},
        {"prefix": "10.4.1.0/24", "action": "natively-forward"},
        {"prefix": "10.4.2.0/24", "action": "send-map-request"},
        {"prefix": "10.4.3.0/24", "action": "drop"},
        {"prefix": "10.4.4.0/24", "action": "drop-policy-denied"},
        {"prefix": "10.4.5.0/24", "action": "drop-auth-failure"},
        {"prefix": "2001:db8:4::/64", "action": "drop"},
        {"prefix": "10.5.0.0/24", "locators": [locator(PEER4, priority=255)]},
        {"prefix": "10.5.1.0/24", "locators": [locator("198.51.100.1")]},
        {"prefix": "10.5.2.0/24", "locators": [locator(PEER4)], "hold": True},
        {"prefix": "10.6.0.0/16", "locators": [locator(PEER4)]},
        {"prefix": "10.6.1.0/24", "locators": [locator(PEER6)]},
        {"prefix": "10.6.1.64/26", "action": "drop"},
        {"prefix": "10.8.0.0/24", "locators": [locator(PEER4, 1, 50), locator(PEER6, 1, 50)]},
        {"prefix": "10.8.1.0/24", "locators": [locator(PEER4, 2, 50), locator(PEER6, 1, 50)]},
        # Paths: a relay takes those on which it stands before the next hop, an ITR all of them.
        {"prefix": "10.10.0.0/24", "locators": [path("192.0.2.99", OWN4, PEER4, next=2)]},
        {"prefix": "10.10.1.0/24", "locators": [path(PEER4, "192.0.2.99")]},
        {"prefix": "10.10.2.0/24", "locators": [path(PEER4, OWN4, PEER6, next=1)]},
        {"prefix": "10.10.3.0/24", "locators": [locator(OWN4)]},
        {"prefix": "10.10.4.0/24", "locators": [path(OWN6, "192.0.2.98", PEER6, next=2)]},
        {"prefix": "10.10.5.0/24", "locators": [path("192.0.2.98", PEER6, next=1)]},
        {"prefix": "10.10.6.0/24", "locators": [path(OWN4, "198.51.100.1", PEER4, next=1)]},
        {"prefix": "10.10.7.0/24", "locators": [path(OWN6, PEER6)]},
        {"prefix": "10.10.8.0/24", "locators": [path(OWN4, PEER4, next=1, weight=50), path(PEER6, "192.0.2.99", weight=50)]},
        {"prefix": "2001:db8:10::/64", "locators": [path("192.0.2.99", OWN6, PEER4, next=2)]},
        {"prefix": "2001:db8:10:1::/64", "locators": [path(PEER6, OWN6, PEER4)]},
        # Flows that are bound choose among these, whatever the priority, but 255.
        {"prefix": "10.12.0.0/24", "locators": [locator(PEER4), locator(PEER6, 2), locator("192.0.2.99", 255)]},
        {"prefix": "[7]10.12.0.0/24", "locators": [locator(PEER4), locator(PEER6, 2)]},
        {"prefix": "2001:db8:12::/64", "locators": [locator(PEER6), path(PEER4, "192.0.2.99", priority=3)]},
        {"prefix": "[7]192.0.2.0/24", "locators": [locator(PEER4)]},
        {"prefix": "[7]2001:db8:ff00::/48", "locators": [locator(PEER6)]},
    ],
    # Flows that are bound to a path, by its hops.
    "flows": [
        flow("10.1.0.10", "10.12.0.10", 40100, PEER6), flow("10.1.0.1", "10.12.0.10", 40100, PEER6),
        flow("10.1.0.10", "10.12.0.10", 40101, "192.0.2.99"), flow("10.1.0.10", "10.12.0.10", 40102, "192.0.2.98"),
        flow("10.1.0.10", "10.12.0.10", 40104, PEER4),
        flow("10.1.0.10", "10.2.0.10", 40100, PEER6), flow("10.2.0.10", "10.12.0.10", 40100, PEER6),
        flow("10.7.0.10", "10.12.0.10", 40100, PEER6), flow("10.7.0.10", "10.12.0.10", 40101, PEER6, instance=7),
        flow("2001:db8:1::10", "2001:db8:12::10", 40100, PEER4, "192.0.2.99"),
        flow("2001:db8:1::10", "2001:db8:12::10", 40101, PEER4),
    ],
    # What the router does beside ITR and ETR where a case says so.
    "policies": [
        {"role": "rtr", "eids": ["10.2.0.0/24", "10.11.0.0/16", "2001:db8:2::/64"]},
        {"role": "rtr", "instance": 7, "eids": ["10.2.0.0/24", "2001:db8:ff00::/48"]},
        {"role": "petr", "eids": ["10.2.0.0/25", "10.9.0.0/24", "2001:db8:2::/64"]},
        {"role": "petr", "instance": 16777214, "eids": ["10.2.0.0/24"]},
        {"role": "pitr", "eids": ["10.2.0.0/24", "10.4.0.0/16", "10.5.0.0/16", "10.10.0.0/16", "10.99.0.0/24", "2001:db8:2::/64"],
         "sources": ["198.51.100.0/24", "2001:db8:99::/64"]},
        {"role": "pitr", "instance": 7, "eids": ["10.2.0.0/24", "192.0.2.0/24", "2001:db8:ff00::/48"]},
    ],
    # What headers may tell where the settings allow it. Database entries have all own RLOCs as locators.
    "versions": {
        "10.1.0.0/24": 69, "2001:db8:1::/64": 4095, "[7]10.7.0.0/24": 7,
        "10.2.0.0/24": 100, "2001:db8:3::/64": 2, "[7]10.2.0.0/24": 3000,
    },
    "locators_down": {"10.1.0.0/24": [OWN6]},
    "echo_nonce": ["10.2.0.0/24", "2001:db8:3::/64"],
    # Deny and allow lists where the settings switch them on; the longest prefix decides, and what has none is permitted.
    "lists": [
        {"packets": "encapsulated", "address": "inner-source", "entries": {"10.1.0.66/32": "deny", "2001:db8:1::66/128": "deny"}},
        {"packets": "encapsulated", "address": "inner-source", "instance": 7,
         "entries": {"0.0.0.0/0": "deny", "::/0": "deny", "10.7.0.0/25": "permit"}},
        {"packets": "encapsulated", "address": "inner-destination",
         "entries": {"10.2.0.64/26": "deny", "10.2.0.80/32": "permit", "2001:db8:2::/96": "deny", "10.77.0.0/16": "deny", "10.4.1.0/24": "deny"}},
        {"packets": "encapsulated", "address": "outer-destination", "entries": {PEER6 + "/128": "deny"}},
        {"packets": "encapsulated", "address": "outer-source", "entries": {"192.0.2.99/32": "deny"}},
        {"packets": "decapsulated", "address": "inner-source", "entries": {"0.0.0.0/0": "deny", "10.2.0.0/16": "permit", "10.2.0.66/32": "deny", "2001:db8:2:66::/64": "deny"}},
        {"packets": "decapsulated", "address": "inner-destination", "entries": {"10.1.0.66/32": "deny"}},
        {"packets": "decapsulated", "address": "inner-destination", "instance": 7, "entries": {"10.7.0.0/24": "deny"}},
        {"packets": "decapsulated", "address": "outer-source", "entries": {"192.0.2.66/32": "deny", "2001:db8:ff00::66/128": "deny"}},
        {"packets": "decapsulated", "address": "outer-destination", "entries": {"192.0.2.0/24": "permit", OWN6 + "/128": "deny"}},
    ],
}

CASES = []


def case(name, why, hook, packet, verdict, **more):
    assert name not in {c["name"] for c in CASES}, name
    entry = {"name": name, "why": why, "hook": hook, "input": bytes(packet).hex(), "verdict": verdict}
    for key, value in more.items():
        entry[key] = value.hex() if isinstance(value, bytes) else value
    CASES.append(entry)


# ---- the flow hash, from the text of bpf/abi.h ----

M32 = 0xFFFFFFFF


def flow_hash(source, destination, protocol, ports):
    h = 0x4C495350
    words = [struct.unpack(">I", a[i:i + 4])[0] for a in (source, destination) for i in range(0, len(a), 4)]
    for w in words + [ports, protocol]:
        h ^= w
        h = h * 0x9E3779B1 & M32
        h ^= h >> 15
    h ^= h >> 16
    h = h * 0x85EBCA6B & M32
    h ^= h >> 13
    h = h * 0xC2B2AE35 & M32
    return h ^ h >> 16


def hash_of(packet, protocol, ports):
    """The hash of a packet whose protocol and ports (source, destination) the case knows."""
    low, high = (12, 16) if packet[0] >> 4 == 4 else (8, 24)
    size = high - low
    return flow_hash(packet[low:high], packet[high:high + size], protocol, ports[0] << 16 | ports[1])


# ---- encapsulation, by RFC 9300 s.5.1 to 5.3 ----

def lisp_header(instance=0, flags=0x80, middle=0, low=0):
    if instance:
        flags |= 0x08
        low |= instance << 8
    return struct.pack(">II", flags << 24 | middle, low)


def with_ttl(packet, ttl):
    p = IP(packet) if packet[0] >> 4 == 4 else IPv6(packet)
    if p.version == 4:
        p.ttl = ttl
        del p.chksum
        rebuilt = bytes(p)
        # scapy fills in what it thinks better; only TTL and checksum may differ
        return packet[:8] + bytes([ttl]) + packet[9:10] + rebuilt[10:12] + packet[12:]
    return packet[:7] + bytes([ttl]) + packet[8:]


def class_of(packet):
    return packet[1] if packet[0] >> 4 == 4 else struct.unpack(">H", packet[:2])[0] >> 4 & 0xFF


def ttl_of(packet):
    return packet[8] if packet[0] >> 4 == 4 else packet[7]


def wrap(packet, peer, protocol, ports=(0, 0), instance=0, decrement=True, outer_class=None):
    """What the ITR sends for an inner packet."""
    h = hash_of(packet, protocol, ports)
    ttl = ttl_of(packet) - (1 if decrement else 0)
    inner = with_ttl(packet, ttl) if decrement else packet
    tos = class_of(packet) if outer_class is None else outer_class
    if ":" in peer:
        outer = IPv6(src=OWN6, dst=peer, hlim=ttl, tc=tos, fl=h >> 12, nh=17)
    else:
        outer = IP(src=OWN4, dst=peer, ttl=ttl, tos=tos, flags="DF", id=0, proto=17)
    payload = lisp_header(instance) + inner
    udp = UDP(sport=0xC000 | h & 0x3FFF, dport=4341, len=8 + len(payload), chksum=0)
    return bytes(outer / udp / Raw(payload))


def encapsulate(name, why, packet, peer, protocol, ports=(0, 0), hook="site", instance=0, **more):
    packet = bytes(packet)
    sent = wrap(packet, peer, protocol, ports, instance, hook in ("site", "released"), more.pop("outer_class", None))
    if instance:
        more["instance"] = instance
    case(name, why, hook, packet, "encapsulate", output=sent, **more)


def v4(destination="10.2.0.10", source="10.1.0.10", **fields):
    fields.setdefault("id", 0x1234)
    return IP(src=source, dst=destination, **fields)


def v6(destination="2001:db8:2::10", source="2001:db8:1::10", **fields):
    return IPv6(src=source, dst=destination, **fields)


UDP_PORTS = (40000, 53)
TCP_PORTS = (40001, 443)


def udp(text=b"first packets"):
    return UDP(sport=UDP_PORTS[0], dport=UDP_PORTS[1]) / Raw(text)


def tcp(text=b""):
    return TCP(sport=TCP_PORTS[0], dport=TCP_PORTS[1], seq=1, flags="S") / Raw(text)


def pairs():
    for inner, outer, destination, peer in (
            (4, 4, "10.2.0.10", PEER4), (4, 6, "10.3.0.10", PEER6),
            (6, 4, "2001:db8:2::10", PEER4), (6, 6, "2001:db8:3::10", PEER6)):
        yield f"ipv{inner}-in-ipv{outer}", v4 if inner == 4 else v6, destination, peer


def encapsulated_protocols():
    for pair, ip, destination, peer in pairs():
        why = "RFC 9300 s.5.1, s.5.2"
        icmp, number = (ICMP(id=7, seq=1), 1) if ip is v4 else (ICMPv6EchoRequest(id=7, seq=1), 58)
        encapsulate(f"udp {pair}", why, ip(destination) / udp(), peer, 17, UDP_PORTS)
        encapsulate(f"tcp {pair}", why, ip(destination) / tcp(), peer, 6, TCP_PORTS)
        encapsulate(f"icmp echo {pair}", "RFC 9300 s.5.3: other protocols by addresses", ip(destination) / icmp / Raw(b"ping"), peer, number)
    encapsulate("sctp", "RFC 9300 s.5.3: SCTP has ports", v4() / SCTP(sport=5000, dport=5001), PEER4, 132, (5000, 5001))
    encapsulate("gre", "no ports", v4() / GRE() / v4() / udp(), PEER4, 47)
    encapsulate("esp", "no ports", v6() / ESP(spi=1, seq=2, data=b"x" * 16), PEER4, 50)
    encapsulate("unknown protocol", "253 is for experiments", v4(proto=253) / Raw(b"?" * 20), PEER4, 253)
    encapsulate("no payload", "a header alone", v4(proto=17), PEER4, 17)
    encapsulate("ipv6 no next header", "59", v6(nh=59), PEER4, 59)
    encapsulate("udp ports cut off", "abi.h: ports must be within the packet", v4(proto=17) / Raw(b"\x9c\x40"), PEER4, 17)
    encapsulate("ports alone", "four octets are enough for ports", v4(proto=17) / Raw(b"\x9c\x40\x00\x35"), PEER4, 17, UDP_PORTS)
    encapsulate("inner lisp", "RFC 9300 s.5: one more LISP header is allowed", v4() / UDP(sport=61000, dport=4341) / Raw(lisp_header() + bytes(v4() / udp())),
                PEER4, 17, (61000, 4341))


def encapsulated_fragments():
    why = "abi.h: fragments have no ports in the hash; inner fragments are packets like others"
    encapsulate("ipv4 first fragment", why, v4(flags="MF") / udp(b"x" * 24), PEER4, 17)
    encapsulate("ipv4 later fragment", why, v4(frag=3, proto=17) / Raw(b"y" * 24), PEER4, 17)
    encapsulate("ipv4 middle fragment over ipv6", why, v4("10.3.0.10", flags="MF", frag=5, proto=6) / Raw(b"y" * 24), PEER6, 6)
    encapsulate("ipv6 first fragment", why, v6() / IPv6ExtHdrFragment(m=1, id=9, nh=17) / udp(b"x" * 24), PEER4, 17)
    encapsulate("ipv6 later fragment", why, v6("2001:db8:3::10") / IPv6ExtHdrFragment(offset=4, id=9, nh=6) / Raw(b"y" * 24), PEER6, 6)
    encapsulate("ipv6 atomic fragment", why, v6() / IPv6ExtHdrFragment(id=9, nh=17) / udp(), PEER4, 17)
    encapsulate("ipv6 fragment behind hop-by-hop", why,
                v6() / IPv6ExtHdrHopByHop(options=[PadN(optdata=b"\0" * 4)]) / IPv6ExtHdrFragment(m=1, id=9, nh=17) / udp(), PEER4, 17)


def encapsulated_extensions():
    hop = IPv6ExtHdrHopByHop(options=[PadN(optdata=b"\0" * 4)])
    destination = IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0" * 12)])
    routing = IPv6ExtHdrRouting(type=253, addresses=[], segleft=0)
    why = "abi.h: hop-by-hop, routing and destination options are walked over"
    encapsulate("ipv6 hop-by-hop", why, v6() / hop / udp(), PEER4, 17, UDP_PORTS)
    encapsulate("ipv6 destination options", why, v6() / destination / tcp(), PEER4, 6, TCP_PORTS)
    encapsulate("ipv6 routing header", why, v6() / routing / udp(), PEER4, 17, UDP_PORTS)
    encapsulate("ipv6 three extension headers", why, v6("2001:db8:3::10") / hop / routing / destination / udp(), PEER6, 17, UDP_PORTS)
    six = v6()
    for _ in range(6):
        six /= IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0" * 4)])
    encapsulate("ipv6 six extension headers", "the most that are walked over", six / udp(), PEER4, 17, UDP_PORTS)
    seven = six / IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0" * 4)])
    encapsulate("ipv6 seven extension headers", "the walk ends at the seventh", seven / udp(), PEER4, 60)
    encapsulate("ipv6 fragment behind six", "one header more than the limit is not looked at",
                six / IPv6ExtHdrFragment(m=1, id=9, nh=17) / udp(), PEER4, 44)
    encapsulate("ipv6 authentication header", "AH is not walked over", v6() / AH(nh=17, payloadlen=4, icv=b"\0" * 12) / udp(), PEER4, 51)
    encapsulate("ipv6 extension header missing", "announced, but the packet ends before it", v6(nh=60), PEER4, 60)
    encapsulate("ipv6 extension header too long", "the walk ends with what the cut header announces",
                v6(nh=0) / Raw(bytes([17, 9]) + b"\0" * 6), PEER4, 17)
    long = IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0" * 252)])
    encapsulate("ipv6 long extension header", "its ports are far behind, and count", v6() / long / udp(), PEER4, 17, UDP_PORTS)
    encapsulate("ipv6 header behind a long one", "both are walked over", v6() / long / destination / tcp(), PEER4, 6, TCP_PORTS)
    encapsulate("ipv6 fragment behind a long header", "no ports in the hash", v6() / long / IPv6ExtHdrFragment(m=1, id=9, nh=17) / udp(b"x" * 24), PEER4, 17)
    encapsulate("ipv4 router alert", "RFC 791: options belong to the inner packet", v4(options=[IPOption_Router_Alert()]) / udp(), PEER4, 17, UDP_PORTS)
    encapsulate("ipv4 record route over ipv6", "options of 40 octets",
                v4("10.3.0.10", options=[IPOption_RR(routers=["0.0.0.0"] * 9)]) / tcp(), PEER6, 6, TCP_PORTS)


def encapsulated_marks():
    for ecn, word in enumerate(("not-ect", "ect1", "ect0", "ce")):
        why = "RFC 6040 s.4.1 normal mode: copied"
        encapsulate(f"ecn {word} ipv4-in-ipv4", why, v4(tos=ecn) / udp(), PEER4, 17, UDP_PORTS)
        encapsulate(f"ecn {word} ipv6-in-ipv6", why, v6("2001:db8:3::10", tc=ecn) / udp(), PEER6, 17, UDP_PORTS)
    encapsulate("dscp ef ipv4-in-ipv6", "RFC 9300 s.5.3: DSCP copied", v4("10.3.0.10", tos=46 << 2 | 2) / udp(), PEER6, 17, UDP_PORTS)
    encapsulate("dscp cs6 ipv6-in-ipv4", "RFC 9300 s.5.3: DSCP copied", v6(tc=48 << 2 | 1) / udp(), PEER4, 17, UDP_PORTS)
    encapsulate("compatibility mode", "RFC 6040 s.4.3: outer Not-ECT", v4(tos=0xBB) / udp(), PEER4, 17, UDP_PORTS,
                outer_class=0xB8, marking=["outer-not-ect"])
    encapsulate("pipe model", "outer DSCP 0, ECN copied", v6(tc=0xBA) / udp(), PEER4, 17, UDP_PORTS,
                outer_class=0x02, marking=["outer-dscp-zero"])
    encapsulate("pipe model in compatibility mode", "both", v4(tos=0xBA) / udp(), PEER4, 17, UDP_PORTS,
                outer_class=0, marking=["outer-not-ect", "outer-dscp-zero"])
    for ttl in (255, 128, 2):
        encapsulate(f"ttl {ttl} ipv4", "RFC 9300 s.5.3: decremented, then copied", v4(ttl=ttl) / udp(), PEER4, 17, UDP_PORTS)
        encapsulate(f"ttl {ttl} ipv6", "RFC 9300 s.5.3: decremented, then copied", v6("2001:db8:3::10", hlim=ttl) / udp(), PEER6, 17, UDP_PORTS)
    for ttl in (1, 0):
        case(f"ttl {ttl} ipv4", "the stack answers with Time Exceeded", "site", v4(ttl=ttl) / udp(), "pass")
        case(f"ttl {ttl} ipv6", "the stack answers with Time Exceeded", "site", v6(hlim=ttl) / udp(), "pass")
    encapsulate("flow label of inner ipv6", "the inner flow label stays and does not count", v6("2001:db8:3::10", fl=0xABCDE) / udp(), PEER6, 17, UDP_PORTS)
    good = bytes(v4() / udp())
    bad = good[:10] + bytes([good[10] ^ 0x10]) + good[11:]
    sent = wrap(bad, PEER4, 17, UDP_PORTS)
    # RFC 1624: the TTL's word falls by 0x100, so the checksum grows by as much, end-around carry included.
    check = struct.unpack(">H", bad[10:12])[0] + 0x100
    check = (check & 0xFFFF) + (check >> 16)
    case("ipv4 header checksum wrong", "updated, never recomputed: an error stays visible", "site", bad, "encapsulate",
         output=sent[:36 + 10] + struct.pack(">H", check) + sent[36 + 12:])


def encapsulated_instances():
    encapsulate("instance-id 7 ipv4-in-ipv6", "RFC 9300 s.5.5: I bit and 24 bits", v4(source="10.7.0.10") / udp(), PEER6, 17, UDP_PORTS, instance=7)
    encapsulate("instance-id 7 ipv6-in-ipv4", "RFC 9300 s.5.5", v6(source="2001:db8:7::10") / udp(), PEER4, 17, UDP_PORTS, instance=7)
    encapsulate("instance-id largest", "16777214", v4(source="10.7.0.10") / udp(), PEER4, 17, UDP_PORTS, instance=16777214)
    case("instance-id without mapping", "10.3.0.0/24 is mapped in instance 0 alone", "site", v4("10.3.0.10", source="10.7.0.10") / udp(), "wait",
         instance=7, miss=True)
    case("source of another instance", "10.1.0.10 is an EID of instance 0 alone", "site", v4() / udp(), "pass", instance=7)
    case("destination of another instance", "10.1.0.0/24 is ours in instance 0 alone", "site", v4("10.1.0.10", source="10.7.0.10") / udp(), "wait",
         instance=7, miss=True)


def not_encapsulated():
    case("source no eid ipv4", "RFC 9300 s.4: not from an EID", "site", v4(source="172.16.0.1") / udp(), "pass")
    case("source no eid ipv6", "RFC 9300 s.4", "site", v6(source="2001:db8:99::1") / udp(), "pass")
    case("source beside the prefix", "10.1.1.0 is between two prefixes of ours", "site", v4(source="10.1.1.10") / udp(), "pass")
    case("within the site ipv4", "own EIDs are reached natively", "site", v4("10.1.200.10") / udp(), "pass")
    case("within the site ipv6", "own EIDs are reached natively", "site", v6("2001:db8:1::20") / udp(), "pass")
    for name, destination in (("multicast", "239.1.1.1"), ("local multicast", "224.0.0.5"), ("broadcast", "255.255.255.255"),
                              ("class e", "240.0.0.1"), ("link-local", "169.254.1.1"), ("loopback", "127.0.0.1"), ("zero", "0.1.2.3")):
        case(f"ipv4 to {name}", "not routable unicast", "site", v4(destination) / udp(), "pass")
    for name, destination in (("multicast", "ff0e::1"), ("all nodes", "ff02::1"), ("link-local", "fe80::1"), ("loopback", "::1"), ("unspecified", "::")):
        case(f"ipv6 to {name}", "not routable unicast", "site", v6(destination) / udp(), "pass")
    case("to an own rloc", "no EID: no business of the mapping system", "site", v4(OWN4) / udp(), "native")
    case("to an own ipv6 rloc", "no EID", "site", v6(OWN6) / udp(), "native")
    case("unknown eid ipv4", "miss", "site", v4("10.99.0.1") / udp(), "wait", miss=True)
    case("unknown eid ipv6", "miss", "site", v6("2001:db8:99::1") / udp(), "wait", miss=True)
    case("ipv4-mapped ipv6", "is IPv6: the IPv4 mapping does not cover it", "site", v6("::ffff:10.2.0.10") / udp(), "wait", miss=True)
    case("ipv4-mapped loopback", "is IPv6, and of no meaning there", "site", v6("::ffff:127.0.0.1") / udp(), "wait", miss=True)
    case("unknown eid dropped", "miss policy drop", "site", v4("10.99.0.1") / udp(), "drop", reason="miss", miss=True, miss_policy="drop")
    case("unknown eid native", "miss policy natively-forward", "site", v4("10.99.0.1") / udp(), "native", miss=True, miss_policy="natively-forward")
    case("unknown eid, syn", "the first packet of a connection waits", "site", v6("2001:db8:99::1") / tcp(), "wait", miss=True)
    case("on hold", "earlier packets of the flow are being released", "site", v4("10.5.2.10") / udp(), "wait")
    for name, destination, verdict, more in (
            ("no-action", "10.4.0.1", "drop", {"reason": "no-action"}), ("natively-forward", "10.4.1.1", "native", {}),
            ("send-map-request", "10.4.2.1", "wait", {"miss": True}), ("drop", "10.4.3.1", "drop", {"reason": "action-drop"}),
            ("drop-policy-denied", "10.4.4.1", "drop", {"reason": "policy-denied"}),
            ("drop-auth-failure", "10.4.5.1", "drop", {"reason": "authentication-failure"})):
        case(f"negative mapping {name}", "RFC 9301 s.5.4, ACT", "site", v4(destination) / udp(), verdict, **more)
    case("negative mapping ipv6", "RFC 9301 s.5.4, ACT 3", "site", v6("2001:db8:4::1") / udp(), "drop", reason="action-drop")
    case("no usable locator", "RFC 9301 s.5.4: priority 255", "site", v4("10.5.0.1") / udp(), "drop", reason="no-locator")
    case("no route to the rloc", "198.51.100.1", "site", v4("10.5.1.1") / udp(), "drop", reason="no-route")
    case("longest match negative", "10.6.1.64/26 in 10.6.1.0/24 in 10.6.0.0/16", "site", v4("10.6.1.64") / udp(), "drop", reason="action-drop")


def chosen_locators():
    encapsulate("longest match outer prefix", "10.6.0.0/16", v4("10.6.2.1") / udp(), PEER4, 17, UDP_PORTS)
    encapsulate("longest match inner prefix", "10.6.1.0/24", v4("10.6.1.1") / udp(), PEER6, 17, UDP_PORTS)
    encapsulate("longest match behind the longest", "10.6.1.128 is beyond 10.6.1.64/26", v4("10.6.1.128") / udp(), PEER6, 17, UDP_PORTS)
    encapsulate("best priority", "RFC 9301 s.5.4: the lower value", v4("10.8.1.1") / udp(), PEER6, 17, UDP_PORTS)
    # Equal weights: the first half of the buckets is the first locator's.
    for port in range(40000, 40008):
        packet = bytes(v4("10.8.0.1") / UDP(sport=port, dport=53))
        bucket = hash_of(packet, 17, (port, 53)) >> 14 & 127
        encapsulate(f"shared load port {port}", "RFC 9300 s.12: by flow", packet, PEER4 if bucket < 64 else PEER6, 17, (port, 53))


BOUND_PORT = 40100
CAPABLE = (30, b"\x01\x81\x01\x02\x03\x04\x05\x06\x07\x08")


def segment(port=BOUND_PORT, flags="A", text=b"data", **fields):
    return TCP(sport=port, dport=443, seq=1, flags=flags, **fields) / Raw(text)


def bound_flows():
    def chosen(name, why, packet, peer, ports=(BOUND_PORT, 443), protocol=6, **more):
        encapsulate(f"bound flow {name}", why, packet, peer, protocol, ports, **more)

    two, six = "10.12.0.10", lambda: v6("2001:db8:12::10")
    chosen("to a worse locator", "locators of any priority take part", v4(two) / segment(), PEER6)
    chosen("to the best locator", "which its hash would choose as well", v4(two) / segment(40104), PEER4, (40104, 443))
    chosen("to a path", "by all its hops", six() / segment(), PEER4)
    chosen("to the first hop alone", "which is another path than that of the mapping", six() / segment(40101), PEER6, (40101, 443))
    chosen("to priority 255", "never to be used", v4(two) / segment(40101), PEER4, (40101, 443))
    chosen("to a path of no mapping", "as without a binding", v4(two) / segment(40102), PEER4, (40102, 443))
    chosen("to a path of another mapping", "a binding chooses among the locators of the packet's own", v4() / segment(), PEER4)
    chosen("beside it", "another port is another flow", v4(two) / segment(40103), PEER4, (40103, 443))
    chosen("of another protocol", "UDP of the same ports", v4(two) / UDP(sport=BOUND_PORT, dport=443) / Raw(b"data"), PEER4, protocol=17)
    chosen("of another instance-id", "bound in Instance-ID 0", v4(two, "10.7.0.10") / segment(), PEER4, instance=7)
    chosen("of its instance-id", "bound in Instance-ID 7", v4(two, "10.7.0.10") / segment(40101), PEER6, (40101, 443), instance=7)
    chosen("in a fragment", "which does not tell its flow", v4(two, flags="MF") / segment(text=b"x" * 20), PEER4, (0, 0))
    chosen("of this system", "as a host's", v4(two, "10.1.0.1") / segment(), PEER6, hook="local")
    packet = i4(two) / segment()
    relay("relay a bound flow", "an RTR binds as an ITR", tunnel(packet), packet, 64, PEER6, 6, (BOUND_PORT, 443))


def subflows():
    def told(name, why, packet, peer, ports, wanted, **more):
        packet = bytes(packet)
        header = 20 if packet[0] >> 4 == 4 else 40
        octets = (packet[header + 12] >> 4) * 4
        more = {**more, "subflow": packet[header:header + octets].hex()} if wanted else more
        encapsulate(f"subflow {name}", why, packet, peer, 6, ports, settings=["subflows"], **more)

    two, new = "10.12.0.10", (40200, 443)
    syn = lambda options, flags="S", text=b"": segment(new[0], flags, text, options=options)
    why = "RFC 8684 s.3: option 30"
    told("syn", why, v4(two) / syn([CAPABLE]), PEER4, new, True)
    told("syn ipv6", why, v6("2001:db8:12::10") / syn([("MSS", 1400), CAPABLE]), PEER6, new, True)
    told("syn and ack", why, v4(two) / syn([CAPABLE, ("MSS", 1400)], "SA"), PEER4, new, True)
    told("syn of plain tcp", "no option 30", v4(two) / syn([("MSS", 1400), ("NOP", None), ("WScale", 7)]), PEER4, new, False)
    told("syn without a choice", "one locator", v4() / syn([CAPABLE]), PEER4, new, False)
    told("ack", "it begins nothing", v4(two) / syn([CAPABLE], "A"), PEER4, new, False)
    told("option behind the end", "RFC 9293 s.3.2: nothing is behind it", v4(two) / syn([("EOL", None), CAPABLE]), PEER4, new, False)
    short = bytes(v4(two) / syn([CAPABLE]))
    told("option too long", "it ends behind the header", short[:41] + b"\x0d" + short[42:], PEER4, new, False)
    told("option too short", "less than kind and length", short[:41] + b"\x01" + short[42:], PEER4, new, False)
    told("header too long", "it ends behind the packet", short[:32] + b"\xf0" + short[33:], PEER4, new, False)
    told("header too short", "RFC 9293 s.3.1: 5 at least", short[:32] + b"\x40" + short[33:], PEER4, new, False)
    bound = (BOUND_PORT, 443)
    told("fin of a bound flow", "it ends one", v4(two) / segment(flags="FA"), PEER6, bound, True)
    told("rst of a bound flow", "it ends one", v4(two) / segment(flags="R", text=b""), PEER6, bound, True)
    told("fin of another flow", "it is not bound", v4(two) / segment(40103, "FA"), PEER4, (40103, 443), False)
    for name, inner in (("ipv4", i4("10.1.0.10", two)), ("ipv6", i6("2001:db8:1::10", "2001:db8:12::10"))):
        header = TCP(sport=443, dport=40200, seq=1, flags="SA", options=[CAPABLE])
        packet = bytes(inner / header)
        decapsulate(f"subflow from the core {name}", why, tunnel(packet), packet, 64, settings=["subflows"],
                    subflow=packet[-(20 + 12):].hex())
    packet = i4("10.1.0.10", two) / TCP(sport=443, dport=BOUND_PORT, seq=1, flags="FA")
    decapsulate("subflow from the core, its other direction bound", "it ends one", tunnel(packet), packet, 64, settings=["subflows"],
                subflow=bytes(packet)[20:].hex())
    packet = i4("10.1.0.10") / TCP(sport=443, dport=40200, seq=1, flags="FA")
    decapsulate("subflow from the core, not bound", "it ends none", tunnel(packet), packet, 64, settings=["subflows"])
    packet = i4(two) / syn([CAPABLE])
    relay("relay subflow", "it begins at another router", tunnel(packet), packet, 64, PEER4, 6, new, settings=["subflows"])
    packet = i4(two) / segment(flags="FA")
    relay("relay the end of a bound flow", "it ends one", tunnel(packet), packet, 64, PEER6, 6, bound, settings=["subflows"],
          subflow=bytes(packet)[20:40].hex())


def malformed_from_site():
    good = bytes(v4() / udp())
    good6 = bytes(v6() / udp())
    why = "left to the stack"
    case("version nibble 5", why, "site", bytes([0x55]) + good[1:], "pass")
    case("version nibble 0", why, "site", bytes([0x05]) + good[1:], "pass")
    case("ipv4 header cut off", why, "site", good[:19], "pass")
    case("ipv6 header cut off", why, "site", good6[:39], "pass")
    case("ipv4 header length 4", why, "site", bytes([0x44]) + good[1:], "pass")
    case("ipv4 total length below header", why, "site", good[:2] + b"\0\x13" + good[4:], "pass")
    case("ipv4 packet cut off", why, "site", good[:-1], "pass")
    case("ipv6 packet cut off", why, "site", good6[:-1], "pass")
    tiny = bytes(v4() / UDP(sport=UDP_PORTS[0], dport=UDP_PORTS[1]))
    case("ipv4 padding", "RFC 9300 s.5.3: UDP length by the inner total length, without Ethernet's padding", "site", tiny + b"\0" * 18, "encapsulate",
         output=wrap(tiny, PEER4, 17, UDP_PORTS))
    tiny = bytes(v6(nh=59))
    case("ipv6 padding", "RFC 9300 s.5.3: UDP length by the inner payload length", "site", tiny + b"\0" * 6, "encapsulate", output=wrap(tiny, PEER4, 59))
    ports = struct.pack(">HH", *UDP_PORTS)
    why = "abi.h: padding is no header, whatever it looks like"
    for name, bare, padding, protocol in (
            ("hop-by-hop", v6(nh=0), bytes([17, 0]) + b"\0" * 6 + ports, 0),
            ("fragment", v6(nh=44), bytes([17, 0, 0, 1]) + b"\0" * 4 + ports, 44),
            ("second header", v6() / IPv6ExtHdrDestOpt(nh=60, options=[PadN(optdata=b"\0" * 4)]), bytes([17, 0]) + b"\0" * 6 + ports, 60),
            ("rest of a header", v6(nh=60) / Raw(b"\x11"), b"\0" * 7 + ports, 60)):
        bare = bytes(bare)
        case(f"ipv6 padding like {name}", why, "site", bare + padding, "encapsulate", output=wrap(bare, PEER4, protocol))


def sized(ip, destination, octets, **fields):
    head = ip(destination, **fields) / UDP(sport=UDP_PORTS[0], dport=UDP_PORTS[1])
    return bytes(head / Raw(b"z" * (octets - len(bytes(head)))))


def sizes():
    for pair, ip, destination, peer in pairs():
        largest = MTU - (36 if peer is PEER4 else 56)
        df = {"flags": "DF"} if ip is v4 else {}
        encapsulate(f"largest {pair}", "RFC 9300 s.7.1: fits exactly", sized(ip, destination, largest, **df), peer, 17, UDP_PORTS)
        case(f"too big {pair}", "RFC 9300 s.7.1: one octet more", "site", sized(ip, destination, largest + 1, **df), "too-big", largest_inner=largest)
    case("too big without df", "RFC 9300 s.7.1: to be fragmented, elsewhere", "site", sized(v4, "10.2.0.10", 1500), "too-big", largest_inner=1464)
    big = bytes(v4(flags="DF") / TCP(sport=1, dport=2, flags="A") / Raw(b"s" * 3000))
    case("super-packet, segments too big", "each segment must fit: 20 + 20 + 1460", "site", big, "too-big", largest_inner=1464, segment=1460)
    big = bytes(v6("2001:db8:3::10") / TCP(sport=1, dport=2, flags="A", options=[("NOP", None)] * 12) / Raw(b"s" * 3000))
    case("super-packet ipv6, segments too big", "40 + 32 + 1373", "site", big, "too-big", largest_inner=1444, segment=1373)


def local_packets():
    why = "this system's own EID"
    encapsulate("own packet", why, v4(ttl=64) / udp(), PEER4, 17, UDP_PORTS, hook="local")
    encapsulate("own packet ipv6", why, v6("2001:db8:3::10") / udp(), PEER6, 17, UDP_PORTS, hook="local")
    encapsulate("own packet ttl 1", "its TTL is left alone (traceroute)", v4(ttl=1) / udp(), PEER4, 17, UDP_PORTS, hook="local")
    case("own packet from an rloc", "no LISP in LISP", "local", v4(source=OWN4) / udp(), "pass")
    case("own lisp packet", "no LISP in LISP", "local", wrap(bytes(v4() / udp()), PEER4, 17, UDP_PORTS), "pass")
    case("own packet to an unknown eid", "miss", "local", v4("10.99.0.1") / udp(), "wait", miss=True)
    case("own packet within the site", "own EIDs natively", "local", v4("10.1.0.20") / udp(), "pass")
    case("own packet no eid", "172.16.0.1", "local", v4(source="172.16.0.1") / udp(), "pass")
    quoted = v4("10.1.0.10", source="10.2.0.10", ttl=1) / udp()
    error = IP(src=OWN4, dst="10.2.0.10", id=5) / ICMP(type=11) / Raw(bytes(quoted)[:28])
    encapsulate("own icmp error from an rloc", "RFC 9300 s.4: it is owed to a remote EID", error, PEER4, 1, hook="local")
    quoted = v6("2001:db8:1::10", source="2001:db8:2::10") / udp()
    error = IPv6(src=OWN6, dst="2001:db8:2::10") / ICMPv6PacketTooBig(mtu=1280) / Raw(bytes(quoted))
    encapsulate("own icmpv6 error from an rloc", "RFC 9300 s.4", error, PEER4, 58, hook="local")
    quoted = v4("172.16.0.1", source="10.2.0.10", ttl=1) / udp()
    error = IP(src=OWN4, dst="10.2.0.10", id=5) / ICMP(type=11) / Raw(bytes(quoted)[:28])
    case("own icmp error about no eid", "not about a packet to an EID of ours", "local", error, "pass")
    error = IP(src=OWN4, dst="10.2.0.10", id=5) / ICMP(type=11)
    case("own icmp error without its quote", "what follows the packet is no part of it", "local", bytes(error) + bytes(i4() / udp()), "pass")
    error = IP(src=OWN4, dst="10.2.0.10", id=5, proto=58) / Raw(b"\x03" + b"\0" * 7 + bytes(i4() / udp()))
    case("own icmpv6 over ipv4", "no error of its family", "local", error, "pass")
    error = IPv6(src=OWN6, dst="2001:db8:2::10", nh=1) / Raw(b"\x03" + b"\0" * 7 + bytes(i6() / udp()))
    case("own icmpv4 over ipv6", "no error of its family", "local", error, "pass")
    good = bytes(v4() / udp())
    case("own packet cut off", "a length that lies is not carried further", "local", good[:-1], "pass")
    case("own packet with header length 15", "the header is longer than the packet", "local", bytes([0x4F]) + good[1:], "pass")
    case("own ping from an rloc", "no error", "local", IP(src=OWN4, dst="10.2.0.10") / ICMP(), "pass")


def tap_packets():
    encapsulate("routed to lisp", "own EID, by the route into LISP", v4() / udp(), PEER4, 17, UDP_PORTS, hook="tap")
    case("routed to lisp, no eid", "nothing else may leave there", "tap", v4(source="172.16.0.1") / udp(), "drop", reason="source-not-eid")
    error = IP(src="172.16.0.1", dst="10.2.0.10", id=5) / ICMP(type=11) / Raw(bytes(v4("10.1.0.10", source="10.2.0.10", ttl=1) / udp())[:28])
    encapsulate("routed to lisp, icmp error from anywhere", "RFC 9300 s.4: it is owed to a remote EID, and the kernel chose the source", error, PEER4, 1, hook="tap")
    case("routed to lisp, cut off", "a length that lies is not carried further", "tap", bytes(v6() / udp())[:-1], "drop", reason="not-forwardable")
    case("routed to lisp, unknown eid", "miss", "tap", v4("10.99.0.1") / udp(), "wait", miss=True)
    case("routed to lisp, multicast", "not routable unicast", "tap", v6("ff0e::1") / udp(), "drop", reason="not-forwardable")


def released_packets():
    encapsulate("released", "it waited", v4() / udp(), PEER4, 17, UDP_PORTS, hook="released")
    encapsulate("released despite hold", "hold is for those behind it", v4("10.5.2.10") / tcp(), PEER4, 6, TCP_PORTS, hook="released")
    case("released without mapping", "it waits once", "released", v4("10.99.0.1") / udp(), "drop", reason="released-without-mapping")
    case("released ttl 1", "the stack does not see it any more", "released", v4(ttl=1) / udp(), "drop", reason="ttl-expired")
    case("released native", "negative mapping: natively", "released", v4("10.4.1.1") / udp(), "native")
    case("released negative", "negative mapping: drop", "released", v4("10.4.3.1") / udp(), "drop", reason="action-drop")


# ---- decapsulation ----

OUTER_PORT = 0xC123


def tunnel(inner, family=4, header=None, udp_fields=None, **fields):
    """A LISP packet from the peer to this router."""
    port = {"sport": OUTER_PORT, "dport": 4341, "chksum": 0}
    port.update(udp_fields or {})
    payload = (lisp_header() if header is None else header) + bytes(inner)
    if family == 4:
        fields.setdefault("flags", "DF")
        return bytes(IP(src=fields.pop("src", PEER4), dst=fields.pop("dst", OWN4), id=0, **fields) / UDP(**port) / Raw(payload))
    return bytes(IPv6(src=fields.pop("src", PEER6), dst=fields.pop("dst", OWN6), **fields) / UDP(**port) / Raw(payload))


def i4(destination="10.1.0.10", source="10.2.0.10", **fields):
    return v4(destination, source, **fields)


def i6(destination="2001:db8:1::10", source="2001:db8:2::10", **fields):
    return v6(destination, source, **fields)


def marked(packet, ttl, tos=None):
    """The packet with another TTL and traffic class, its checksum made by scapy."""
    packet = bytes(packet)
    if packet[0] >> 4 == 4:
        if tos is not None:
            packet = packet[:1] + bytes([tos]) + packet[2:]
        return with_ttl(packet, ttl)
    if tos is not None:
        first = struct.unpack(">I", packet[:4])[0]
        packet = struct.pack(">I", first & 0xF00FFFFF | tos << 20) + packet[4:]
    return with_ttl(packet, ttl)


def decapsulate(name, why, packet, inner, ttl, tos=None, **more):
    """ttl: the smaller of both TTLs. A packet that is forwarded loses one more."""
    verdict = "decapsulate" if ttl > 1 else "stack"
    case(name, why, "core", packet, verdict, output=marked(inner, ttl - 1 if ttl > 1 else ttl, tos), **more)


def decapsulated_pairs():
    for inner_name, inner in (("ipv4", i4), ("ipv6", i6)):
        for outer in (4, 6):
            ttl = {"ttl": 60} if outer == 4 else {"hlim": 60}
            for proto, payload in (("udp", udp()), ("tcp", tcp(b"data"))):
                packet = inner() / payload
                decapsulate(f"decapsulate {proto} {inner_name}-in-ipv{outer}", "RFC 9300 s.5.1, s.5.2", tunnel(packet, outer, **ttl), packet, 60)
    packet = i4() / ICMP(id=7, seq=1)
    decapsulate("decapsulate icmp", "any protocol", tunnel(packet), packet, 64)
    packet = i4(flags="MF", frag=3, proto=17) / Raw(b"f" * 16)
    decapsulate("decapsulate inner fragment", "inner fragments are packets like others", tunnel(packet), packet, 64)
    packet = i6() / IPv6ExtHdrHopByHop(options=[PadN(optdata=b"\0" * 4)]) / udp()
    decapsulate("decapsulate inner extension header", "as it is", tunnel(packet), packet, 64)
    packet = i4(options=[IPOption_Router_Alert()]) / udp()
    decapsulate("decapsulate inner options", "as they are", tunnel(packet), packet, 64)
    packet = i4() / udp()
    decapsulate("outer udp checksum", "RFC 9300 s.5.3: not zero, not verified, accepted", tunnel(packet, udp_fields={"chksum": None}), packet, 64)
    decapsulate("outer udp checksum ipv6", "RFC 9300 s.5.3", tunnel(packet, 6, udp_fields={"chksum": None}), packet, 64)
    decapsulate("outer source port 4341", "any source port", tunnel(packet, udp_fields={"sport": 4341}), packet, 64)
    decapsulate("outer options", "RFC 791: the outer header may be longer", tunnel(packet, options=[IPOption_Router_Alert()]), packet, 64)
    decapsulate("outer df clear", "RFC 9300 s.7.1: DF may be 0", tunnel(packet, flags=0), packet, 64)
    outer = IPv6(src=PEER6, dst=OWN6) / IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0" * 4)]) / UDP(sport=OUTER_PORT, dport=4341, chksum=0)
    decapsulate("outer extension header", "RFC 8200", bytes(outer / Raw(lisp_header() + bytes(packet))), packet, 64)
    for octets in (188, 252):
        outer = IPv6(src=PEER6, dst=OWN6) / IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0" * octets)]) / UDP(sport=OUTER_PORT, dport=4341, chksum=0)
        decapsulate(f"outer extension header of {octets + 4} octets", "RFC 8200", bytes(outer / Raw(lisp_header() + bytes(packet))), packet, 64)
    decapsulate("octets behind the outer packet", "Ethernet padding", tunnel(packet) + b"\0" * 7, packet, 64)
    decapsulate("octets behind the inner packet", "they are not the inner packet's", tunnel(bytes(packet) + b"\xEE" * 9), packet, 64)
    bad = bytes(packet)
    bad = bad[:10] + bytes([bad[10] ^ 0x10]) + bad[11:]
    check = struct.unpack(">H", bad[10:12])[0] + 0x100
    check = (check & 0xFFFF) + (check >> 16)
    case("inner header checksum wrong", "updated, never recomputed", "core", tunnel(bad), "decapsulate",
         output=bad[:8] + bytes([63]) + bad[9:10] + struct.pack(">H", check) + bad[12:])


# RFC 6040 figure 4, written out. None: drop. Codepoints: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
RFC6040 = {
    (0, 0): (0, ""), (0, 2): (0, "ecn-alarm"), (0, 1): (0, "ecn-alarm"), (0, 3): (None, "ecn-alarm"),
    (2, 0): (2, ""), (2, 2): (2, ""), (2, 1): (1, ""), (2, 3): (3, ""),
    (1, 0): (1, ""), (1, 2): (1, "ecn-curious"), (1, 1): (1, ""), (1, 3): (3, ""),
    (3, 0): (3, ""), (3, 2): (3, ""), (3, 1): (3, "ecn-alarm"), (3, 3): (3, ""),
}


def decapsulated_marks():
    words = ("not-ect", "ect1", "ect0", "ce")
    for (inner, outer), (result, note) in RFC6040.items():
        for family in (4, 6):
            packet = (i4(tos=0x28 | inner) if family == 4 else i6(tc=0x28 | inner)) / udp()
            mark = {"tos": 0x28 | outer} if family == 4 else {"tc": 0x28 | outer}
            name = f"ecn inner {words[inner]} outer {words[outer]} ipv{family}"
            notes = {"notes": [note]} if note else {}
            if result is None:
                case(name, "RFC 6040 s.4.2", "core", tunnel(packet, family, **mark), "drop", reason="ecn", **notes)
            else:
                decapsulate(name, "RFC 6040 s.4.2", tunnel(packet, family, **mark), packet, 64, 0x28 | result, **notes)
    packet = i4(tos=0) / udp()
    decapsulate("dscp from the outer header", "RFC 9300 s.5.3", tunnel(packet, 6, tc=46 << 2), packet, 64, 46 << 2)
    packet = i6(tc=10 << 2) / udp()
    decapsulate("dscp from the outer header, ipv6", "RFC 9300 s.5.3", tunnel(packet, tos=46 << 2), packet, 64, 46 << 2)
    packet = i4(tos=10 << 2 | 2) / udp()
    decapsulate("dscp kept", "RFC 2983 pipe model; ECN by RFC 6040 all the same", tunnel(packet, tos=46 << 2 | 3), packet, 64, 10 << 2 | 3,
                marking=["inner-dscp-kept"])
    for outer, inner in ((10, 64), (64, 10), (255, 255), (2, 2), (2, 255)):
        packet = i4(ttl=inner) / udp()
        decapsulate(f"ttl outer {outer} inner {inner}", "RFC 9300 s.5.3: the smaller", tunnel(packet, ttl=outer), packet, min(outer, inner))
        packet = i6(hlim=inner) / udp()
        decapsulate(f"hop limit outer {outer} inner {inner}", "RFC 9300 s.5.3: the smaller", tunnel(packet, 6, hlim=outer), packet, min(outer, inner))
    for outer, inner in ((1, 64), (64, 1), (0, 64), (64, 0)):
        packet = i4(ttl=inner) / udp()
        decapsulate(f"ttl outer {outer} inner {inner}", "the stack answers with Time Exceeded", tunnel(packet, ttl=outer), packet, min(outer, inner))


def decapsulated_headers():
    packet = i4() / udp()
    for name, why, header in (
            ("flags none", "RFC 9300 s.5.1: N=0 is allowed", lisp_header(flags=0)),
            ("nonce", "RFC 9300 s.5.1", lisp_header(middle=0xABCDEF)),
            ("locator-status-bits", "RFC 9300 s.10: ignored", lisp_header(flags=0xC0, low=0x80000003)),
            ("echo-nonce request", "RFC 9300 s.10.1: ignored", lisp_header(flags=0xA0, middle=0x123456)),
            ("echo-nonce without nonce", "RFC 9300 s.5.3: E without N is ignored", lisp_header(flags=0x20)),
            ("map-version", "RFC 9302 s.4: ignored", lisp_header(flags=0x10, middle=0x001002)),
            ("field without its flag", "RFC 9300 s.5.3: ignored", lisp_header(flags=0, middle=0x123456, low=0xFFFFFFFF))):
        decapsulate(f"lisp header {name}", why, tunnel(packet, header=header), packet, 64)
    decapsulate("lisp header nonce and map-version", "RFC 9300 s.5.1: taken for a nonce", tunnel(packet, header=lisp_header(flags=0x90, middle=0x123456)),
                packet, 64, notes=["nonce-and-version"])
    mine = i4("10.7.0.10") / udp()
    decapsulate("lisp header instance-id", "RFC 9300 s.5.5", tunnel(mine, header=lisp_header(7)), mine, 64, instance=7)
    decapsulate("lisp header instance-id and status bits", "RFC 9300 s.5.3: 8 bits are left", tunnel(mine, 6, header=lisp_header(7, flags=0xC0, low=0xFF)), mine, 64,
                instance=7)
    mine6 = i6("2001:db8:7::10") / udp()
    decapsulate("lisp header instance-id ipv6", "RFC 9300 s.5.5", tunnel(mine6, header=lisp_header(7)), mine6, 64, instance=7)
    decapsulate("lisp header instance-id largest", "16777214", tunnel(mine, header=lisp_header(16777214)), mine, 64, instance=16777214)
    drop = lambda name, why, packet, reason, **more: case(name, why, "core", packet, "drop", reason=reason, **more)
    drop("lisp header reserved bit", "bit 5: RFC 9305's P, not understood here", tunnel(packet, header=lisp_header(flags=0x84)), "reserved-bit")
    for key in (1, 2, 3):
        drop(f"lisp header key-id {key}", "RFC 9300 s.5.3, RFC 8061: no keys", tunnel(packet, header=lisp_header(flags=0x80 | key)), "key-id")
    drop("lisp header key-id and reserved bit", "RFC 9305 has no keys", tunnel(packet, header=lisp_header(flags=0x85)), "reserved-bit")
    for name, why, inner, header in (
            ("eid unknown ipv4", "not in the Database", i4("10.9.9.9") / udp(), lisp_header()),
            ("eid unknown ipv6", "not in the Database", i6("2001:db8:9::9") / udp(), lisp_header()),
            ("eid in another instance", "RFC 9300 s.5.5", mine, lisp_header()),
            ("instance-id unknown", "RFC 9300 s.5.5", packet, lisp_header(8)),
            ("inner multicast", "not an EID of ours", i4("239.1.1.1") / udp(), lisp_header())):
        drop(name, why, tunnel(inner, header=header), "eid-not-in-database")
    drop("instance-id of the control plane", "0xFFFFFF, and from no RTR of ours", tunnel(packet, header=lisp_header(0xFFFFFF)), "control-source")


def with_header(sent, header, outer_octets=36):
    """The packet with another LISP header."""
    at = outer_octets - 8
    return sent[:at] + header + sent[at + 8:]


def versions(source, destination, flags=0x10, low=0, instance=0):
    return lisp_header(instance, flags=flags, middle=source << 12 | destination, low=low)


def trusted_sent():
    """RFC 9300 s.10, s.10.1, RFC 9302 s.4: what the ITR says in the header."""
    packet, seven, six = bytes(v4() / udp()), bytes(v4(source="10.7.0.10") / udp()), bytes(v6("2001:db8:3::10") / udp())
    plain = wrap(packet, PEER4, 17, UDP_PORTS)

    def sent(name, why, header, settings, packet=packet, rloc=PEER4, instance=0, **more):
        whole = wrap(packet, rloc, 17, UDP_PORTS, instance)
        output = with_header(whole, header, 56 if ":" in rloc else 36)
        case(name, why, "site", packet, "encapsulate", output=output, settings=settings, instance=instance, **more)

    bits, vers, echo, public = "status-bits", "map-versions", "echo-nonce", "public-internet"
    sent("send status-bits", "RFC 9300 s.10: the state of 10.1.0.0/24's locators", lisp_header(flags=0xC0, low=1), [bits])
    sent("send status-bits ipv6", "both of 2001:db8:1::/64 are up", lisp_header(flags=0xC0, low=3), [bits], six, PEER6)
    sent("send status-bits and instance-id", "RFC 9300 s.5.3: 8 bits beside the Instance-ID", lisp_header(7, flags=0xC0, low=3), [bits], seven, PEER6, 7)
    sent("send versions", "RFC 9302 s.4: V excludes N", versions(69, 100), [vers])
    sent("send versions ipv6", "RFC 9302 s.4", versions(4095, 2), [vers], six, PEER6)
    sent("send versions and instance-id", "RFC 9302 s.4", versions(7, 3000, instance=7), [vers], seven, PEER6, 7)
    sent("send versions and status-bits", "RFC 9300 s.10: LSBs SHOULD be coupled with versions", versions(69, 100, 0x50, 1), [bits, vers])
    source_null = bytes(v4(source="10.1.128.10") / udp())
    sent("send null source version", "RFC 9302 s.6.1: says that the source has none", versions(0, 100), [vers], source_null)
    encapsulate("no versions towards a null version", "RFC 9302 s.6.1: V MUST be 0", v4("10.3.0.10") / udp(), PEER6, 17, UDP_PORTS, settings=[vers])
    sent("request an echo", "RFC 9300 s.10.1: N and E", lisp_header(flags=0xA0), [echo])
    encapsulate("request no echo", "RFC 9300 s.10.1: whoever answers for 10.3.0.0/24 does not echo", v4("10.3.0.10") / udp(), PEER6, 17, UDP_PORTS,
                settings=[echo])
    sent("request an echo again", "RFC 9300 s.10.1: E in every packet, with the same nonce", lisp_header(flags=0xA0, middle=0xABCDEF), [echo],
         peer={"rloc": PEER4, "requested": 0xABCDEF, "age": 5}, exact_nonce=True)
    sent("return an echo", "RFC 9300 s.10.1: the nonce with N set and E clear", lisp_header(middle=0x123456), [echo],
         peer={"rloc": PEER4, "owed": 0x123456, "age": 5}, exact_nonce=True)
    sent("return an echo over ipv6", "also where no echo is asked for", lisp_header(7, middle=0x123456), [echo], seven, PEER6, 7,
         peer={"rloc": PEER6, "owed": 0x123456, "age": 5}, exact_nonce=True)
    sent("return an echo before asking", "its receiver waits", lisp_header(middle=0x123456), [echo],
         peer={"rloc": PEER4, "owed": 0x123456, "requested": 0xABCDEF, "age": 5}, exact_nonce=True)
    sent("echo owed for too long", "nobody waits for it any more: our own request", lisp_header(flags=0xA0), [echo],
         peer={"rloc": PEER4, "owed": 0x123456, "age": 61})
    sent("echo before versions", "RFC 9300 s.5.3: N excludes V", lisp_header(middle=0x123456), [echo, vers],
         peer={"rloc": PEER4, "owed": 0x123456, "age": 5}, exact_nonce=True)
    sent("public internet", "RFC 9300 s.4.1: N, L, E and V MUST be 0", lisp_header(flags=0), [public, bits, vers, echo])
    sent("public internet with instance-id", "I is not forbidden", lisp_header(7, flags=0), [public, bits], seven, PEER6, 7)
    assert plain != with_header(plain, lisp_header(flags=0xC0, low=1))


def trusted_received():
    """RFC 9300 s.10, s.10.1, RFC 9302 s.7: what the ETR makes of the header."""
    packet = i4(source="10.2.0.10") / udp()
    two = i4(source="10.8.0.10") / udp()
    unknown = i4(source="10.77.0.10") / udp()
    bits, vers, echo, public = "status-bits", "map-versions", "echo-nonce", "public-internet"

    def taken(name, why, header, settings, inner=packet, outer=4, **more):
        decapsulate(name, why, tunnel(inner, outer, header=header), inner, 64, settings=settings, **more)

    def refused(name, why, header, settings, reason, inner=packet, outer=4, **more):
        case(name, why, "core", tunnel(inner, outer, header=header), "drop", reason=reason, settings=settings, **more)

    hint = lambda kind, value, other: [{"kind": kind, "value": value, "other": other}]
    taken("heed status-bits, all up", "RFC 9300 s.10: no news", lisp_header(flags=0xC0, low=3), [bits], two)
    taken("heed status-bits, one down", "RFC 9300 s.10: bit 1 went down", lisp_header(flags=0xC0, low=1), [bits], two, hints=hint("status-bits", 1, 32))
    taken("heed status-bits over ipv6", "RFC 9300 s.10: bit 0 went down", lisp_header(flags=0xC0, low=2), [bits], two, 6, hints=hint("status-bits", 2, 32))
    taken("heed status-bits beyond the locators", "only as many as the mapping has locators", lisp_header(flags=0xC0, low=0xF0), [bits], packet,
          hints=hint("status-bits", 0, 32))
    seven = i4("10.7.0.10", source="10.2.0.10") / udp()
    taken("heed status-bits beside an instance-id", "RFC 9300 s.5.3: 8 bits are left", lisp_header(7, flags=0xC0, low=0xFE), [bits], seven, instance=7,
          hints=hint("status-bits", 0, 8))
    taken("heed no status-bits without L", "RFC 9300 s.5.3", lisp_header(flags=0x80, low=0), [bits], two)
    taken("heed no status-bits of an unknown source", "no mapping that they could be of", lisp_header(flags=0xC0, low=0), [bits], unknown)
    taken("heed no status-bits on the public internet", "RFC 9300 s.10", lisp_header(flags=0xC0, low=0), [bits, public], two)

    taken("versions right", "RFC 9302 s.7.1, s.7.2: case 1 of both", versions(100, 69), [vers])
    taken("versions ignored", "off by default", versions(99, 70), [])
    taken("versions ignored on the public internet", "RFC 9302 s.8", versions(99, 70), [vers, public])
    refused("destination version newer", "RFC 9302 s.7.1: case 2", versions(100, 70), [vers], "destination-version")
    refused("destination version newest", "RFC 9302 s.6: 69 + 2048", versions(100, 2117), [vers], "destination-version")
    taken("destination version oldest", "RFC 9302 s.6: 69 + 2049", versions(100, 2118), [vers], notes=["version-stale-destination"],
          hints=hint("destination-version", 100, 2118))
    taken("destination version older", "RFC 9302 s.7.1: case 3", versions(100, 68), [vers], notes=["version-stale-destination"],
          hints=hint("destination-version", 100, 68))
    taken("destination version older, wrapped", "RFC 9302 s.6: 4095 is before 69", versions(100, 4095), [vers], outer=6,
          notes=["version-stale-destination"], hints=hint("destination-version", 100, 4095))
    refused("destination version older for long", "RFC 9302 s.7.1: after ten retries", versions(100, 68), [vers], "stale-version", stale_events=30,
            notes=["version-stale-destination"], hints=hint("destination-version", 100, 68))
    refused("destination version null", "RFC 9302 s.7.1: a protocol violation", versions(100, 0), [vers], "destination-version")
    refused("destination version where ours is null", "RFC 9302 s.6.1", versions(100, 5), [vers], "destination-version",
            i4("10.1.128.10", source="10.2.0.10") / udp())
    taken("source version newer", "RFC 9302 s.7.2: case 2", versions(101, 69), [vers], notes=["version-stale-source"],
          hints=hint("source-version", 101, 69))
    refused("source version older", "RFC 9302 s.7.2: case 3", versions(99, 69), [vers], "source-version")
    refused("source version older, wrapped", "RFC 9302 s.6", versions(4000, 69), [vers], "source-version")
    taken("source version null", "RFC 9302 s.6.1: not compared", versions(0, 69), [vers])
    taken("source version of an unknown source", "RFC 9302 s.7.2: ignored", versions(1, 69), [vers], unknown)
    taken("source version where the map-cache has null", "not compared", versions(1, 69), [vers], two)
    taken("versions with nonce", "RFC 9300 s.5.3: taken for a nonce", versions(99, 70, 0x90), [vers], notes=["nonce-and-version"])
    six = i6(source="2001:db8:3::10") / udp()
    taken("versions right ipv6", "RFC 9302 s.7", versions(2, 4095), [vers], six, 6)
    refused("destination version newer ipv6", "RFC 9302 s.6: 1 is after 4095", versions(2, 1), [vers], "destination-version", six, 6)

    taken("echo asked for", "RFC 9300 s.10.1", lisp_header(flags=0xA0, middle=0x123456), [echo], owes=0x123456)
    taken("echo asked for over ipv6", "RFC 9300 s.10.1", lisp_header(flags=0xA0, middle=0x123456), [echo], outer=6, owes=0x123456)
    taken("echo asked for without nonce", "RFC 9300 s.5.3: E without N is ignored", lisp_header(flags=0x20, middle=0x123456), [echo], owes=0)
    taken("echo asked for on the public internet", "RFC 9300 s.10.1: MUST NOT be used", lisp_header(flags=0xA0, middle=0x123456), [echo, public], owes=0)
    taken("echo received", "RFC 9300 s.10.1: the path is up", lisp_header(middle=0xABCDEF), [echo], notes=["echo-received"],
          peer={"rloc": PEER4, "requested": 0xABCDEF, "age": 20})
    taken("echo not yet received", "the echo may still come", lisp_header(middle=0x111111), [echo], peer={"rloc": PEER4, "requested": 0xABCDEF, "age": 1})
    taken("echo missing", "RFC 9300 s.10.1: packets come without it", lisp_header(middle=0x111111), [echo], notes=["echo-missing"],
          peer={"rloc": PEER4, "requested": 0xABCDEF, "age": 20}, hints=hint("echo-missing", 0xABCDEF, 0x111111))
    taken("echo missing without nonce", "RFC 9300 s.10.1", lisp_header(flags=0), [echo], outer=6, notes=["echo-missing"],
          peer={"rloc": PEER6, "requested": 0xABCDEF, "age": 20}, hints=hint("echo-missing", 0xABCDEF, 0))

    check, strict = ["check-source"], ["check-source", "check-source-strict"]
    taken("source of its locator", "10.2.0.0/24 is at the outer source", lisp_header(), check)
    refused("source of another rloc", "10.2.0.0/24 is not at the outer source", lisp_header(), check, "source-rloc", outer=6)
    taken("source of one of two locators", "10.8.0.0/24 has both", lisp_header(), check, two, 6)
    taken("source ipv6 of its locator", "2001:db8:3::/64", lisp_header(), check, six, 6)
    refused("source ipv6 of another rloc", "2001:db8:3::/64 has an IPv6 locator", lisp_header(), check, "source-rloc", six)
    taken("source unknown", "nothing is known against it", lisp_header(), check, unknown)
    refused("source unknown, strict", "nothing is known for it; it is asked for", lisp_header(), strict, "source-rloc", unknown, miss=True)
    taken("source of its locator, strict", "10.2.0.0/24", lisp_header(), strict)
    for name, source, rloc in (("first", "10.10.1.10", PEER4), ("last", "10.10.1.10", "192.0.2.99"), ("middle", "10.10.4.10", "192.0.2.98"),
                               ("last, behind the next", "10.10.6.10", PEER4), ("last, of the other family", "10.10.4.10", PEER6)):
        far = i4(source=source) / udp()
        decapsulate(f"source of a path's hop, {name}", "RFC 8060 s.4.6: each of them may send", tunnel(far, 6 if ":" in rloc else 4, src=rloc), far, 64, settings=check)
    far = i4(source="10.10.6.10") / udp()
    case("source of no hop of a path", "192.0.2.99 is a hop of other paths", "core", tunnel(far, src="192.0.2.99"), "drop", reason="source-rloc", settings=check)
    negative = i4(source="10.4.1.10") / udp()
    taken("source without locators", "a negative mapping: a PITR may have sent it", lisp_header(), check, negative)
    refused("source without locators, strict", "a negative mapping", lisp_header(), strict, "source-rloc", negative)
    refused("source checked on the public internet", "the check is allowed there", lisp_header(), check + [public], "source-rloc", outer=6)


def gpe():
    """RFC 9305: LISP-GPE, and VXLAN-GPE, which has the same words at port 4790."""
    for settings, port, always in ((["lisp-gpe"], 4341, 0), (["vxlan-gpe"], 4790, 0x08)):
        name = settings[0]
        for pair, ip, destination, rloc in pairs():
            packet = bytes(ip(destination) / udp())
            at = 56 if ":" in rloc else 36
            header = lisp_header(flags=0x04 | always, middle=1 if ip is v4 else 2)
            sent = with_header(wrap(packet, rloc, 17, UDP_PORTS), header, at)
            sent = sent[:at - 14] + struct.pack(">H", port) + sent[at - 12:]
            case(f"send {name} {pair}", "RFC 9305 s.3: P and Next Protocol, no nonce", "site", packet, "encapsulate", output=sent, settings=settings)
            inner = (i4 if ip is v4 else i6)() / udp()
            family = 6 if ":" in rloc else 4
            decapsulate(f"{name} {pair}", "RFC 9305 s.3", tunnel(inner, family, header=header, udp_fields={"dport": port}), inner, 64, settings=settings)
        packet = bytes(v4(source="10.7.0.10") / udp())
        sent = with_header(wrap(packet, PEER6, 17, UDP_PORTS, 7), lisp_header(7, flags=0x04, middle=1), 56)
        case(f"send {name} instance-id", "RFC 9305 s.3: I as before", "site", packet, "encapsulate",
             output=sent[:42] + struct.pack(">H", port) + sent[44:], settings=settings, instance=7)
        mine = i4("10.7.0.10") / udp()
        decapsulate(f"{name} instance-id", "RFC 9305 s.3", tunnel(mine, header=lisp_header(7, flags=0x04, middle=1), udp_fields={"dport": port}), mine, 64,
                    instance=7, settings=settings)
        packet = i4() / udp()
        refuse = lambda what, why, header, reason, inner=packet: case(
            f"{name} {what}", why, "core", tunnel(inner, header=header, udp_fields={"dport": port}), "drop", reason=reason, settings=settings)
        for number, what in ((0, "no protocol"), (3, "ethernet"), (4, "nsh"), (0x80, "shim")):
            refuse(what, "RFC 9305 s.3.1: not IP", lisp_header(flags=0x04 | always, middle=number), "reserved-bit")
        refuse("ipv6 announced, ipv4 there", "RFC 9305 s.3.1", lisp_header(flags=0x04 | always, middle=2), "inner-malformed")
        refuse("ipv4 announced, ipv6 there", "RFC 9305 s.3.1", lisp_header(flags=0x04 | always, middle=1), "inner-malformed", i6() / udp())
    vxlan = {"settings": ["vxlan-gpe"]}
    there = {"udp_fields": {"dport": 4790}}
    for name, flags in (("without vni", 0x04), ("without next protocol", 0x08), ("operations packet", 0x0D), ("another version", 0x1C)):
        case(f"vxlan-gpe {name}", "not what VXLAN-GPE's data packets are", "core", tunnel(packet, header=lisp_header(flags=flags, middle=1), **there), "drop",
             reason="reserved-bit", **vxlan)
    decapsulate("vxlan-gpe bum bit", "says nothing to us", tunnel(packet, header=lisp_header(flags=0x0E, middle=1), **there), packet, 64, **vxlan)
    case("vxlan-gpe where it is off", "port 4790 is somebody else's", "core", tunnel(packet, header=lisp_header(flags=0x0C, middle=1), **there), "pass")
    decapsulate("lisp-gpe where others are sent lisp", "RFC 9305: P tells", tunnel(packet, header=lisp_header(flags=0x04, middle=1)), packet, 64)
    decapsulate("lisp-gpe with nonce and version flags", "RFC 9305 s.3: ignored", tunnel(packet, header=lisp_header(flags=0xB4, middle=0x123401)), packet, 64,
                settings=["map-versions", "echo-nonce"], owes=0)


def listed():
    """Deny and allow lists of inner and outer addresses; each address of each direction denied, and its neighbours not."""
    on = {"settings": ["lists"]}
    deny = lambda name, why, hook, packet, reason, **more: case(f"list {name}", why, hook, bytes(packet), "drop", reason=reason, **on, **more)
    deny("inner source", "10.1.0.66/32", "site", v4(source="10.1.0.66") / udp(), "denied-source")
    deny("inner source ipv6", "2001:db8:1::66/128", "site", v6(source="2001:db8:1::66") / udp(), "denied-source")
    deny("inner source of the host itself", "lists are for its packets too", "local", v4(source="10.1.0.66") / udp(), "denied-source")
    deny("inner source routed to lisp", "and for these", "tap", v4(source="10.1.0.66") / udp(), "denied-source")
    deny("inner source released", "the list came while the packet waited", "released", v4(source="10.1.0.66") / udp(), "denied-source")
    encapsulate("list not of this source", "10.1.0.67 is on no list", v4(source="10.1.0.67") / udp(), PEER4, 17, UDP_PORTS, **on)
    encapsulate("list switched off", "settings without lists", v4(source="10.1.0.66") / udp(), PEER4, 17, UDP_PORTS)
    deny("inner source of an instance", "not on the allow list of Instance-ID 7", "site", v4(source="10.7.0.200") / udp(), "denied-source", instance=7)
    deny("inner source of an instance ipv6", "the allow list has no IPv6", "site", v6(source="2001:db8:7::10") / udp(), "denied-source", instance=7)
    deny("allowed source to a denied rloc", "10.7.0.0/25 is allowed, the RLOC is not", "site", v4(source="10.7.0.10") / udp(), "denied-outer-destination", instance=7)
    deny("inner destination", "10.2.0.64/26", "site", v4("10.2.0.70") / udp(), "denied-destination")
    deny("inner destination ipv6", "2001:db8:2::/96", "site", v6() / udp(), "denied-destination")
    encapsulate("list with a longer permit", "10.2.0.80/32 within 10.2.0.64/26", v4("10.2.0.80") / udp(), PEER4, 17, UDP_PORTS, **on)
    deny("inner destination without mapping", "nobody is asked for it", "site", v4("10.77.0.10") / udp(), "denied-destination")
    deny("inner destination natively forwarded", "what LISP takes is judged before its mapping", "site", v4("10.4.1.10") / udp(), "denied-destination")
    deny("outer destination ipv6", "the RLOC", "site", v4("10.3.0.10") / udp(), "denied-outer-destination")
    case("list of another's source", "no packet of LISP", "site", bytes(v4(source="10.99.0.66") / udp()), "pass", **on)
    case("list within the site", "no packet of LISP", "site", bytes(v4("10.1.128.10", source="10.1.0.66") / udp()), "pass", **on)

    good = i4(source="10.2.0.10") / udp()
    decapsulate("list with an allowed source", "10.2.0.0/16", tunnel(good), good, 64, **on)
    six = i6(source="2001:db8:2::10") / udp()
    decapsulate("list without this ipv6 source", "nothing denies it", tunnel(six), six, 64, **on)
    deny("received inner source", "10.2.0.66/32", "core", tunnel(i4(source="10.2.0.66") / udp()), "denied-source")
    deny("received inner source not allowed", "10.3.0.10 is not in 10.2.0.0/16", "core", tunnel(i4(source="10.3.0.10") / udp()), "denied-source")
    deny("received inner source ipv6", "2001:db8:2:66::/64", "core", tunnel(i6(source="2001:db8:2:66::1") / udp()), "denied-source")
    deny("received inner destination", "10.1.0.66/32", "core", tunnel(i4("10.1.0.66", source="10.2.0.10") / udp()), "denied-destination")
    seven = i4("10.7.0.10", source="10.3.0.10") / udp()
    deny("received inner destination of an instance", "10.7.0.0/24 of Instance-ID 7; its sources have no list", "core", tunnel(seven, header=lisp_header(7)),
         "denied-destination", instance=7)
    deny("received outer source", "192.0.2.66", "core", tunnel(good, src="192.0.2.66"), "denied-outer-source")
    deny("received outer source ipv6", "2001:db8:ff00::66", "core", tunnel(good, 6, src="2001:db8:ff00::66"), "denied-outer-source")
    deny("received outer destination ipv6", "our own RLOC", "core", tunnel(good, 6), "denied-outer-destination")
    deny("received before headers are believed", "versions are not looked at", "core", tunnel(i4(source="10.2.0.66") / udp(), header=versions(100, 70)), "denied-source")


# ---- relays: RTR, PETR, PITR ----

RTR, PETR, PITR = {"roles": ["rtr"]}, {"roles": ["petr"]}, {"roles": ["pitr"]}
BOTH, ALL = {"roles": ["rtr", "petr"]}, {"roles": ["rtr", "petr", "pitr"]}


def relay(name, why, packet, inner, ttl, peer, protocol=17, ports=UDP_PORTS, tos=None, instance=0, header=None, outer_class=None, roles=RTR, **more):
    """ttl: the smaller of both TTLs, tos: both traffic classes merged. The packet that is sent has one hop less."""
    merged = marked(inner, ttl, tos)
    sent = wrap(merged, peer, protocol, ports, instance, True, outer_class)
    if header is not None:
        sent = with_header(sent, header, 56 if ":" in peer else 36)
    if instance:
        more["instance"] = instance
    case(name, why, "core", packet, "relay", output=sent, **roles, **more)


def relayed_pairs():
    for name, inner, peer in (
            ("ipv4 to ipv4", i4("10.6.2.1"), PEER4), ("ipv4 to ipv6", i4("10.3.0.10"), PEER6),
            ("ipv6 to ipv4", i6("2001:db8:2::10", source="2001:db8:3::10"), PEER4), ("ipv6 to ipv6", i6("2001:db8:3::10"), PEER6)):
        for outer in (4, 6):
            ttl = {"ttl": 60} if outer == 4 else {"hlim": 60}
            for proto, payload, protocol, ports in (("udp", udp(), 17, UDP_PORTS), ("tcp", tcp(b"data"), 6, TCP_PORTS)):
                packet = inner / payload
                relay(f"relay {proto} {name} from ipv{outer}", "RFC 9300 s.5.1; the policy names its source or its destination", tunnel(packet, outer, **ttl), packet, 60,
                      peer, protocol, ports)
    packet = i4("10.3.0.10", options=[IPOption_Router_Alert()]) / udp()
    relay("relay inner options", "as they are", tunnel(packet), packet, 64, PEER6)
    packet = i4("10.6.2.1", flags="MF", frag=3, proto=17) / Raw(b"f" * 16)
    relay("relay inner fragment", "without ports in the hash", tunnel(packet, 6), packet, 64, PEER4, ports=(0, 0))
    packet = i6("2001:db8:3::10") / IPv6ExtHdrHopByHop(options=[PadN(optdata=b"\0" * 4)]) / udp()
    relay("relay inner extension header", "as it is", tunnel(packet), packet, 64, PEER6)
    packet = i4("10.3.0.10") / udp()
    relay("relay octets behind the inner packet", "they are not the inner packet's", tunnel(bytes(packet) + b"\xEE" * 9), packet, 64, PEER6)
    relay("relay octets behind the outer packet", "Ethernet padding", tunnel(packet, 6) + b"\0" * 7, packet, 64, PEER6)
    relay("relay from outer options", "RFC 791: the outer header may be longer", tunnel(packet, options=[IPOption_Router_Alert()]), packet, 64, PEER6)
    relay("relay with a udp checksum", "RFC 9300 s.5.3: accepted; sent without", tunnel(packet, 6, udp_fields={"chksum": None}), packet, 64, PEER6)
    packet = i4("10.2.0.10", source="10.6.0.10") / udp()
    seven = i4("10.2.0.10", source="10.9.0.1") / udp()
    relay("relay by destination", "the policy names it, not the source", tunnel(packet), packet, 64, PEER4)
    relay("relay of an instance", "policy, map-cache and header are of the Instance-ID", tunnel(seven, header=lisp_header(7)), seven, 64, PEER6, instance=7)
    relay("relay beside petr and pitr", "a mapping comes before the PETR", tunnel(packet), packet, 64, PEER4, roles=ALL)
    mine = i4() / udp()
    decapsulate("relay's own eid", "the Database comes first", tunnel(mine), mine, 64, **ALL)
    relay("relay lisp-gpe", "RFC 9305 s.3: both ways", tunnel(packet, header=lisp_header(flags=0x04, middle=1)), packet, 64, PEER4, settings=["lisp-gpe"],
          header=lisp_header(flags=0x04, middle=1))
    relay("relay versions", "between ITR and ETR: not judged; a source of others has none here", tunnel(packet, header=versions(99, 4000)), packet, 64, PEER4,
          settings=["map-versions"], header=versions(0, 100))
    relay("relay status bits", "between ITR and ETR: neither read nor sent", tunnel(packet, header=lisp_header(flags=0xC0, low=0)), packet, 64, PEER4,
          settings=["status-bits"])
    relay("relay to one that echoes", "RFC 9300 s.10.1: it is between two RLOCs", tunnel(packet), packet, 64, PEER4, settings=["echo-nonce"],
          header=lisp_header(flags=0xA0))
    packet = i4("10.3.0.10") / udp()
    relay("relay an echo asked for", "RFC 9300 s.10.1: it is between two RLOCs", tunnel(packet, header=lisp_header(flags=0xA0, middle=0x123456)), packet, 64, PEER6,
          settings=["echo-nonce"], owes=0x123456)
    checked = i4("10.6.2.1") / udp()
    relay("relay with the source of its locator", "10.2.0.0/24", tunnel(checked), checked, 64, PEER4, settings=["check-source"])
    relay("relay for port and path", "10.10.0.10", tunnel(i4("10.10.0.10") / udp()), i4("10.10.0.10") / udp(), 64, PEER4)


def relayed_marks():
    for (inner, outer), (result, note) in RFC6040.items():
        for family in (4, 6):
            packet = (i4("10.3.0.10", tos=0x28 | inner) if family == 4 else i6("2001:db8:3::10", tc=0x28 | inner)) / udp()
            mark = {"tos": 0xB8 | outer} if family == 4 else {"tc": 0xB8 | outer}
            name, notes = f"relay ecn inner {inner} outer {outer} ipv{family}", {"notes": [note]} if note else {}
            if result is None:
                case(name, "RFC 6040 s.4.2", "core", tunnel(packet, family, **mark), "drop", reason="ecn", **RTR, **notes)
            else:
                relay(name, "RFC 6040 s.4.2, then s.4.1", tunnel(packet, family, **mark), packet, 64, PEER6, tos=0xB8 | result, **notes)
    packet = i4("10.3.0.10", tos=10 << 2 | 2) / udp()
    relay("relay dscp kept", "RFC 2983 pipe model", tunnel(packet, tos=46 << 2 | 3), packet, 64, PEER6, tos=10 << 2 | 3, marking=["inner-dscp-kept"])
    relay("relay in compatibility mode", "RFC 6040 s.4.3: outer Not-ECT", tunnel(packet, tos=46 << 2 | 3), packet, 64, PEER6, tos=46 << 2 | 3, outer_class=46 << 2,
          marking=["outer-not-ect"])
    relay("relay in the pipe model", "outer DSCP 0", tunnel(packet, tos=46 << 2 | 3), packet, 64, PEER6, tos=46 << 2 | 3, outer_class=3, marking=["outer-dscp-zero"])
    for outer, inner in ((10, 64), (64, 10), (255, 255), (2, 2), (2, 255)):
        packet = i4("10.3.0.10", ttl=inner) / udp()
        relay(f"relay ttl outer {outer} inner {inner}", "the smaller, less one", tunnel(packet, 6, hlim=outer), packet, min(outer, inner), PEER6)
        packet = i6("2001:db8:2::10", source="2001:db8:3::10", hlim=inner) / udp()
        relay(f"relay hop limit outer {outer} inner {inner}", "the smaller, less one", tunnel(packet, ttl=outer), packet, min(outer, inner), PEER4)
    for outer, inner in ((1, 64), (64, 1), (0, 64), (64, 0)):
        for role in (RTR, PETR):
            packet = i4("10.3.0.10", ttl=inner) / udp()
            decapsulate(f"{role['roles'][0]} ttl outer {outer} inner {inner}", "the stack answers with Time Exceeded", tunnel(packet, ttl=outer), packet,
                        min(outer, inner), **role)


def relayed_paths():
    def taken(name, why, packet, peer):
        relay(f"relay path {name}", why, tunnel(packet, 6), packet, 64, peer)
        sent = bytes(v4(packet.dst) / udp()) if packet.version == 4 else bytes(v6(packet.dst) / udp())
        encapsulate(f"itr path {name}", "an ITR is on no path", sent, peer, 17, UDP_PORTS)

    taken("behind the own hop", "192.0.2.99, this router, the next hop", i4("10.10.0.10") / udp(), PEER4)
    taken("behind the own hop ipv6", "the next hop is of the other family", i6("2001:db8:10::10") / udp(), PEER4)
    taken("behind a dead hop", "this router, a hop that is skipped, the next hop", i4("10.10.4.10") / udp(), PEER6)
    for name, destination, peer in (("another's", "10.10.1.10", PEER4), ("behind another's", "10.10.5.10", PEER6)):
        packet = i4(destination) / udp()
        case(f"relay path {name}", "no hop before the next one is this router", "core", tunnel(packet), "drop", reason="not-on-path", **RTR)
        encapsulate(f"itr path {name}", "an ITR is on no path", v4(destination) / udp(), peer, 17, UDP_PORTS)
    packet = i6("2001:db8:10:1::10") / udp()
    case("relay path where it stands behind the next hop", "the packet would come back", "core", tunnel(packet, 6), "drop", reason="not-on-path", **RTR)
    for name, destination, why in (("own next hop", "10.10.2.10", "a path that leads here"), ("own rloc", "10.10.3.10", "a mapping that leads here"),
                                   ("own first hop", "10.10.7.10", "not on the path, and its own next hop: the latter is said")):
        packet = i4(destination) / udp()
        case(f"relay {name}", why, "core", tunnel(packet), "drop", reason="own-next-hop", inner=marked(packet, 64), **RTR)
        case(f"itr {name}", why, "site", v4(destination) / udp(), "drop", reason="own-next-hop")
    packet = i4("10.10.6.10") / udp()
    case("relay path without route", "the next hop has none", "core", tunnel(packet), "drop", reason="no-route", inner=marked(packet, 64), **RTR)
    # Equal weights: the first half of the buckets is the path's, on which this router is; it is not on the other one.
    for port in range(40000, 40008):
        packet = i4("10.10.8.1") / UDP(sport=port, dport=53)
        if hash_of(bytes(packet), 17, (port, 53)) >> 14 & 127 < 64:
            relay(f"relay shared load port {port}", "by flow", tunnel(packet), packet, 64, PEER4, ports=(port, 53))
        else:
            case(f"relay shared load port {port}", "by flow", "core", tunnel(packet), "drop", reason="not-on-path", **RTR)


def not_relayed():
    def drop(name, why, inner, reason, header=None, roles=RTR, told=False, **more):
        if told:
            more["inner"] = marked(inner, 64)
        case(f"relay {name}", why, "core", tunnel(inner, header=header), "drop", reason=reason, **roles, **more)

    other, other6 = i4("10.3.0.10", source="10.6.0.10") / udp(), i6("2001:db8:3::10", source="2001:db8:99::10") / udp()
    known = i4("10.3.0.10") / udp()
    drop("neither end", "the policy names neither", other, "not-in-policy")
    drop("neither end ipv6", "the policy names neither", other6, "not-in-policy")
    drop("neither end of an instance", "10.2.0.0/24 alone", other, "not-in-policy", lisp_header(7))
    drop("in an instance without policy", "no relay there", known, "eid-not-in-database", lisp_header(8))
    drop("in an instance of a petr", "a PETR for 10.2.0.0/24", other, "not-in-policy", lisp_header(16777214), BOTH)
    drop("by a petr alone", "its policy names another source", other, "not-in-policy", roles=PETR)
    drop("by a pitr alone", "it has nothing to do with packets from the core", known, "eid-not-in-database", roles=PITR)
    drop("by no role", "an ETR of others", known, "eid-not-in-database", roles={})
    drop("to multicast", "not routable unicast", i4("239.1.1.1") / udp(), "not-forwardable")
    drop("to a link-local address", "not routable unicast", i6("fe80::1") / udp(), "not-forwardable", roles=PETR)
    drop("to an own rloc", "this router is no site", i4(OWN4) / udp(), "not-in-policy")
    drop("to an own rloc with a mapping", "this router is no site", i4(OWN4) / udp(), "not-in-policy", lisp_header(7))
    drop("to an own ipv6 rloc with a mapping", "this router is no site", i6(OWN6, source="2001:db8:77::1") / udp(), "not-in-policy", lisp_header(7))
    for name, destination, reason, told in (
            ("no-action", "10.4.0.1", "no-action", True), ("drop", "10.4.3.1", "action-drop", True), ("drop-policy-denied", "10.4.4.1", "policy-denied", True),
            ("drop-auth-failure", "10.4.5.1", "authentication-failure", True), ("natively-forward without a petr", "10.4.1.1", "not-in-policy", False)):
        drop(f"negative mapping {name}", "RFC 9301 s.5.4, ACT", i4(destination) / udp(), reason, told=told)
    drop("no usable locator", "priority 255", i4("10.5.0.1") / udp(), "no-locator", told=True)
    drop("no route to the rloc", "198.51.100.1", i4("10.5.1.1") / udp(), "no-route", told=True)
    drop("unknown eid dropped", "miss policy drop", i4("10.99.0.1") / udp(), "miss", miss=True, miss_policy="drop")
    drop("unknown eid native without a petr", "miss policy natively-forward", i4("10.99.0.1") / udp(), "not-in-policy", miss=True, miss_policy="natively-forward")
    packet = i4("10.6.2.1") / udp()
    case("relay from another rloc", "10.2.0.0/24 is not at the outer source", "core", tunnel(packet, 6), "drop", reason="source-rloc", settings=["check-source"], **RTR)
    on = {"settings": ["lists"]}
    drop("list inner source", "on the list of what is decapsulated", i4("10.6.2.1", source="10.2.0.66") / udp(), "denied-source", **on)
    drop("list inner destination", "on the list of what is encapsulated", i4("10.2.0.70", source="10.2.0.10") / udp(), "denied-destination", **on)
    drop("list outer destination", "on the list of what is encapsulated", i4("10.3.0.10") / udp(), "denied-outer-destination", **on)

    def waits(name, why, inner, outer=4, verdict="wait", header=None, **more):
        case(f"relay {name}", why, "core", tunnel(inner, outer, header=header), verdict, inner=marked(inner, 64), **RTR, **more)

    waits("unknown eid", "miss", i4("10.99.0.1") / udp(), miss=True)
    waits("unknown eid ipv6", "miss", i6("2001:db8:99::1") / udp(), 6, miss=True)
    waits("unknown eid, other family outside", "miss", i6("2001:db8:99::1") / udp(), miss=True)
    waits("unknown eid of an instance", "miss", i4("10.99.0.1") / udp(), header=lisp_header(7), instance=7, miss=True)
    packet = i4("10.99.0.1", tos=0x28, ttl=200) / udp()
    case("relay unknown eid, marks", "they are merged before it waits", "core", tunnel(packet, tos=0xBA, ttl=40), "wait", inner=marked(packet, 40, 0xB8), miss=True,
         notes=["ecn-alarm"], **RTR)
    waits("send-map-request", "RFC 9301 s.5.4, ACT 2", i4("10.4.2.1") / udp(), miss=True)
    waits("on hold", "earlier packets of the flow are being released", i4("10.5.2.10") / udp())
    for name, ip, source, destination, largest in (("ipv4", i4, "10.2.0.10", "10.3.0.10", 1444), ("ipv6", i6, "2001:db8:2::10", "2001:db8:3::10", 1444)):
        fits, big = (ip(destination, source=source) / udp(b"z" * (n - (28 if ip is i4 else 48))) for n in (largest, largest + 1))
        relay(f"relay largest {name}", "36 octets in, 56 out", tunnel(fits), fits, 64, PEER6)
        waits(f"too big {name}", "36 octets in, 56 out", big, verdict="too-big", largest_inner=largest)


def exits():
    """A PETR's: output is the packet that leaves, inner what the stack gets to send."""
    def native(name, why, packet, inner, ttl=64, tos=None, roles=PETR, **more):
        case(f"petr {name}", why, "core", packet, "native", output=marked(inner, ttl - 1, tos), inner=marked(inner, ttl, tos), **roles, **more)

    for name, inner in (("ipv4", i4("203.0.113.9") / udp()), ("ipv6", i6("2001:db8:cafe::9") / tcp())):
        for outer in (4, 6):
            native(f"{name} from ipv{outer}", "RFC 6832 s.6: the policy names its source", tunnel(inner, outer), inner)
    inner = i4("203.0.113.9", tos=0x2A, ttl=30) / udp()
    native("marks", "as an ETR's", tunnel(inner, tos=0xBB), inner, 30, 0xBB)
    native("of an instance", "the policy of the Instance-ID", tunnel(inner, header=lisp_header(16777214)), inner, 30, 2)
    native("of an eid that is mapped", "a PETR asks no map-cache", tunnel(i4("10.3.0.10") / udp()), i4("10.3.0.10") / udp())
    native("octets behind the inner packet", "they are not the inner packet's", tunnel(bytes(i4("203.0.113.9") / udp()) + b"\xEE" * 9), i4("203.0.113.9") / udp())
    beside = i4("203.0.113.9", source="10.9.0.10") / udp()
    native("beside an rtr", "the RTR's policy names neither end", tunnel(beside), beside, roles=ALL)
    negative = i4("10.4.1.1") / udp()
    native("by the rtr's mapping", "natively-forward: relayed as far as it goes", tunnel(negative, 6), negative, roles=BOTH)
    missing = i4("10.99.0.1") / udp()
    native("by the rtr's miss policy", "natively-forward", tunnel(missing), missing, roles=BOTH, miss=True, miss_policy="natively-forward")
    case("petr not for this source", "10.2.0.0/25", "core", tunnel(i4("203.0.113.9", source="10.2.0.200") / udp()), "drop", reason="not-in-policy", **PETR)
    case("petr not for the rtr's source", "the RTR's policy names 10.2.0.0/24, the PETR's half of it", "core",
         tunnel(i4("10.4.1.1", source="10.2.0.200") / udp()), "drop", reason="not-in-policy", **BOTH)
    for outer in (4, 6):
        packet = i4(OWN4) / udp()
        case(f"petr to its own rloc from ipv{outer}", "it ends here", "core", tunnel(packet, outer), "stack", output=marked(packet, 64), **PETR)
    packet = i4(OWN4) / udp()
    case("petr and rtr to the own rloc", "it ends here", "core", tunnel(packet), "stack", output=marked(packet, 64), **BOTH)


def relays_errors():
    """What a relay's own stack says about packets that it relays is LISP's, as their senders are EIDs."""
    def error(source, destination, quoted):
        return IP(src=source, dst=destination, id=5) / ICMP(type=11) / Raw(bytes(quoted)[:28])

    by_source, by_destination = i4("10.3.0.10", ttl=1) / udp(), i4("10.2.0.10", source="10.6.0.10", ttl=1) / udp()
    neither = i4("10.3.0.10", source="10.6.0.10", ttl=1) / udp()
    for hook, source in (("local", OWN4), ("tap", "172.16.0.1")):
        encapsulate(f"relay's icmp error by source, {hook}", "the policy names the source that it quotes", error(source, "10.2.0.10", by_source), PEER4, 1, hook=hook, **RTR)
        encapsulate(f"relay's icmp error by destination, {hook}", "the policy names the destination that it quotes", error(source, "10.6.0.10", by_destination), PEER4, 1,
                    hook=hook, **RTR)
    case("relay's icmp error about others", "not about a packet that is relayed", "local", error(OWN4, "10.6.0.10", neither), "pass", **RTR)
    case("relay's icmp error in another instance", "no relay there", "local", error(OWN4, "10.2.0.10", by_source), "pass", instance=16777214, **RTR)
    case("no relay's icmp error", "the role is off", "local", error(OWN4, "10.2.0.10", by_source), "pass")
    case("relay's icmp error routed to lisp about others", "nothing else may leave there", "tap", error("172.16.0.1", "10.6.0.10", neither), "drop",
         reason="source-not-eid", **RTR)
    quoted = i6("2001:db8:3::10", hlim=1) / udp()
    six = IPv6(src=OWN6, dst="2001:db8:2::10") / ICMPv6PacketTooBig(mtu=1280) / Raw(bytes(quoted))
    encapsulate("relay's icmpv6 error", "the policy names the source that it quotes", six, PEER4, 58, hook="local", **RTR)


def proxied():
    out4, out6 = {"source": "198.51.100.7"}, {"source": "2001:db8:99::7"}
    for hook in ("site", "core"):
        def sent(name, why, packet, peer, protocol=17, ports=UDP_PORTS, instance=0, **more):
            packet = bytes(packet)
            case(f"pitr {name} at the {hook}", why, hook, packet, "encapsulate", output=wrap(packet, peer, protocol, ports, instance, True), proxied=True,
                 instance=instance, **PITR, **more)

        def left(name, why, packet, verdict="pass", instance=0, **more):
            case(f"pitr {name} at the {hook}", why, hook, packet, verdict, instance=instance, **PITR, **more)

        sent("ipv4", "RFC 6832 s.5", v4(**out4) / udp(), PEER4)
        sent("ipv6", "RFC 6832 s.5", v6(**out6) / tcp(), PEER4, 6, TCP_PORTS)
        sent("of an instance", "its policy names no sources: all may send", v4(source="203.0.113.7") / udp(), PEER6, instance=7)
        sent("from a remote eid", "its policy names no sources: all may send", v4(source="10.3.0.7") / udp(), PEER6, instance=7)
        sent("along a path", "a PITR is on no path, as an ITR", v4("10.10.1.10", **out4) / udp(), PEER4)
        left("another source", "the policy names 198.51.100.0/24", v4(source="198.51.101.7") / udp())
        left("another source ipv6", "the policy names 2001:db8:99::/64", v6(source="2001:db8:98::7") / udp())
        left("another destination", "mapped, and not in the policy", v4("10.3.0.10", **out4) / udp())
        left("instance without policy", "none there", v4(**out4) / udp(), instance=16777214)
        left("to an own eid", "the site's own", v4("10.1.0.10", **out4) / udp())
        left("to an own rloc", "the policy and a mapping cover it, and it is for this router", v4(OWN4, source="203.0.113.7") / udp(), instance=7)
        left("to an own ipv6 rloc", "the same", v6(OWN6, source="2001:db8:99::7") / udp(), instance=7)
        left("from loopback", "no host of others", v4(source="127.0.0.1") / udp(), instance=7)
        left("from multicast", "no host of others", v4(source="224.0.0.5") / udp(), instance=7)
        left("from the zero address", "no host of others", v6("2001:db8:ff00::77", source="::") / udp(), instance=7)
        left("ttl 1", "the stack answers with Time Exceeded", v4(ttl=1, **out4) / udp())
        left("unknown eid", "miss", v4("10.99.0.1", **out4) / udp(), "wait", miss=True, proxied=True)
        left("on hold", "earlier packets of the flow are being released", v4("10.5.2.10", **out4) / udp(), "wait", proxied=True)
        left("negative mapping", "RFC 9301 s.5.4", v4("10.4.3.1", **out4) / udp(), "drop", reason="action-drop")
        left("negative mapping natively-forward", "RFC 9301 s.5.4", v4("10.4.1.1", **out4) / udp(), "native")
        left("own next hop", "a mapping that leads here", v4("10.10.3.10", **out4) / udp(), "drop", reason="own-next-hop")
        left("too big", "one octet more", sized(v4, "10.2.0.10", 1465, flags="DF", **out4), "too-big", largest_inner=1464,
             proxied=True)
    encapsulate("pitr's own eid", "an EID of the site: an ITR's", v4() / udp(), PEER4, 17, UDP_PORTS, **PITR)
    case("pitr's own packet", "it did not come in", "local", v4(**out4) / udp(), "pass", **PITR)
    encapsulate("pitr's own packet routed to lisp", "routes have chosen LISP", v4(**out4) / udp(), PEER4, 17, UDP_PORTS, hook="tap", proxied=True, **PITR)
    case("pitr's own packet routed to lisp, another source", "the policy names 198.51.100.0/24", "tap", v4(source="198.51.101.7") / udp(), "drop",
         reason="source-not-eid", **PITR)
    packet = v4(source="203.0.113.7") / UDP(sport=1, dport=4341) / Raw(b"x" * 20)
    case("pitr udp to port 4341 of another", "no LISP for this router", "core", packet, "encapsulate", instance=7, proxied=True, **PITR,
         output=wrap(bytes(packet), PEER6, 17, (1, 4341), 7))


def released_relays():
    for name, inner, peer in (("ipv4", i4("10.6.2.1") / udp(), PEER4), ("ipv4 to ipv6", i4("10.3.0.10") / udp(), PEER6),
                              ("ipv6", i6("2001:db8:2::10", source="2001:db8:3::10") / udp(), PEER4)):
        case(f"released relay {name}", "it waited as it left the tunnel", "released", inner, "relay", relayed=True, output=wrap(bytes(inner), peer, 17, UDP_PORTS), **RTR)
    inner = i4("10.2.0.10", source="10.9.0.1") / udp()
    case("released relay of an instance", "the Instance-ID of its header", "released", inner, "relay", relayed=True, instance=7,
         output=wrap(bytes(inner), PEER6, 17, UDP_PORTS, 7), **RTR)
    case("released relay despite hold", "hold is for those behind it", "released", i4("10.5.2.10") / udp(), "relay", relayed=True,
         output=wrap(bytes(i4("10.5.2.10") / udp()), PEER4, 17, UDP_PORTS), **RTR)

    def drop(name, why, inner, reason, roles=RTR, **more):
        case(f"released relay {name}", why, "released", inner, "drop", reason=reason, relayed=True, **roles, **more)

    drop("without mapping", "it waits once", i4("10.99.0.1") / udp(), "released-without-mapping")
    drop("without policy", "it changed while the packet waited", i4("10.6.2.1", source="10.6.0.10") / udp(), "not-in-policy")
    drop("without role", "it ended while the packet waited", i4("10.6.2.1") / udp(), "not-in-policy", {})
    drop("ttl 1", "the stack does not see it any more", i4("10.6.2.1", ttl=1) / udp(), "ttl-expired")
    drop("not on the path", "as one that did not wait", i4("10.10.1.10") / udp(), "not-on-path")
    drop("own next hop", "as one that did not wait", i4("10.10.3.10") / udp(), "own-next-hop")
    drop("native without a petr", "natively-forward", i4("10.4.1.1") / udp(), "not-in-policy")
    inner = i4("10.4.1.1") / udp()
    case("released relay native", "natively-forward, and a PETR", "released", inner, "native", relayed=True, output=marked(inner, 63), inner=bytes(inner), **BOTH)
    packet = bytes(v4(source="198.51.100.7") / udp())
    case("released pitr", "it waited", "released", packet, "encapsulate", proxied=True, output=wrap(packet, PEER4, 17, UDP_PORTS), **PITR)


def malformed_from_core():
    inner = bytes(i4() / udp())
    inner6 = bytes(i6() / udp())
    drop = lambda name, why, packet, reason: case(name, why, "core", packet, "drop", reason=reason)
    for name, octets in (("none", 0), ("one octet", 1), ("ipv4 header cut off", 19), ("ipv4 packet cut off", len(inner) - 1)):
        drop(f"inner packet {name}", "RFC 9300 s.5: nothing to forward", tunnel(inner[:octets]), "inner-malformed")
    drop("inner packet ipv6 header cut off", "RFC 8200", tunnel(inner6[:39], 6), "inner-malformed")
    drop("inner packet ipv6 cut off", "RFC 8200", tunnel(inner6[:-1], 6), "inner-malformed")
    drop("inner version nibble 5", "neither 4 nor 6", tunnel(bytes([0x55]) + inner[1:]), "inner-malformed")
    drop("inner version nibble 0", "neither 4 nor 6", tunnel(bytes([0x00]) + inner[1:], 6), "inner-malformed")
    drop("inner header length 4", "RFC 791: at least 5", tunnel(bytes([0x44]) + inner[1:]), "inner-malformed")
    drop("inner total length below header", "RFC 791", tunnel(inner[:2] + b"\0\x10" + inner[4:]), "inner-malformed")
    drop("lisp header missing", "UDP alone", tunnel(b"", header=b""), "lisp-header-truncated")
    drop("lisp header cut off", "four octets of eight", tunnel(b"", header=b"\x80\0\0\0"), "lisp-header-truncated")
    drop("lisp header missing ipv6", "UDP alone", tunnel(b"", 6, header=b""), "lisp-header-truncated")
    drop("udp length 8", "no room for the LISP header", tunnel(inner, udp_fields={"len": 8}), "lisp-header-truncated")
    drop("udp length 0", "RFC 768: at least 8", tunnel(inner, udp_fields={"len": 0}), "lisp-header-truncated")
    drop("udp length beyond the packet", "contradicts the outer total length", tunnel(inner, udp_fields={"len": 8 + 8 + len(inner) + 1}), "outer-malformed")
    drop("udp length 65535", "contradicts the outer total length", tunnel(inner, 6, udp_fields={"len": 65535}), "outer-malformed")
    drop("udp length within the inner packet", "the inner packet must end within UDP", tunnel(inner, udp_fields={"len": 8 + 8 + len(inner) - 1}), "inner-malformed")
    short = tunnel(inner)
    drop("outer total length short", "contradicts the UDP length", short[:2] + struct.pack(">H", len(short) - 1) + short[4:], "outer-malformed")
    drop("outer packet cut off", "the frame ends first", short[:-1], "outer-malformed")
    drop("outer packet cut off ipv6", "the frame ends first", tunnel(inner, 6)[:-1], "outer-malformed")
    drop("outer packet cut off in the lisp header", "the frame ends first", short[:34], "lisp-header-truncated")
    drop("outer total length below header", "RFC 791", short[:2] + b"\0\x13" + short[4:], "outer-malformed")
    drop("outer total length beyond the frame", "UDP's is right all the same", short[:2] + struct.pack(">H", len(short) + 1) + short[4:], "outer-malformed")
    long = tunnel(inner, 6)
    drop("outer payload length beyond the frame", "UDP's is right all the same", long[:4] + struct.pack(">H", len(long) - 39) + long[6:], "outer-malformed")
    drop("outer total length beyond the frame, udp length 8", "the outer header is judged first",
         (cut := tunnel(inner, udp_fields={"len": 8}))[:2] + struct.pack(">H", len(cut) + 1) + cut[4:], "outer-malformed")
    why = "RFC 1812 s.5.3.7, RFC 3927 s.7: no router forwards packets from there"
    for name, source in (("loopback", "127.0.0.1"), ("zero", "0.0.0.0"), ("link-local", "169.254.1.1"), ("multicast", "224.0.0.5"),
                         ("broadcast", "255.255.255.255"), ("class e", "240.0.0.1")):
        drop(f"inner source ipv4 {name}", why, tunnel(i4(source=source) / udp()), "inner-malformed")
    why = "RFC 4291 s.2.5.2, s.2.5.3, s.2.5.6, s.2.7: no router forwards packets from there"
    for name, source in (("loopback", "::1"), ("unspecified", "::"), ("link-local", "fe80::1"), ("multicast", "ff02::1")):
        drop(f"inner source ipv6 {name}", why, tunnel(i6(source=source) / udp(), 6), "inner-malformed")


def not_lisp():
    inner = i4() / udp()
    ok = lambda name, why, packet: case(name, why, "core", packet, "pass")
    ok("udp of another port", "4342 is the control plane's", tunnel(inner, udp_fields={"dport": 4342}))
    ok("source port 4341 alone", "the destination port counts", tunnel(inner, udp_fields={"sport": 4341, "dport": 4342}))
    ok("to another rloc", "192.0.2.77 is not ours", tunnel(inner, dst="192.0.2.77"))
    ok("to another ipv6 rloc", "not ours", tunnel(inner, 6, dst="2001:db8:ff00::77"))
    ok("tcp to port 4341", "not UDP", IP(src=PEER4, dst=OWN4) / TCP(sport=1, dport=4341))
    ok("ping of an rloc", "not UDP", IP(src=PEER4, dst=OWN4) / ICMP())
    ok("natively from the core", "a packet to an EID without LISP", i4() / udp())
    ok("outer first fragment", "the stack puts fragments together", tunnel(inner, flags="MF"))
    ok("outer later fragment", "the stack puts fragments together", tunnel(inner, flags=0, frag=10))
    outer = IPv6(src=PEER6, dst=OWN6) / IPv6ExtHdrFragment(m=1, id=3, nh=17) / UDP(sport=OUTER_PORT, dport=4341, chksum=0)
    ok("outer ipv6 fragment", "the stack puts fragments together", bytes(outer / Raw(lisp_header() + bytes(inner))))
    ok("outer ends before the ports", "no telling whether it is LISP", tunnel(inner)[:22])
    ok("outer ip header cut off", "no IP packet", tunnel(inner)[:19])


def main():
    for make in (encapsulated_protocols, encapsulated_fragments, encapsulated_extensions, encapsulated_marks, encapsulated_instances,
                 not_encapsulated, chosen_locators, bound_flows, subflows, malformed_from_site, sizes, local_packets, tap_packets, released_packets,
                 decapsulated_pairs, decapsulated_marks, decapsulated_headers, trusted_sent, trusted_received, gpe, listed,
                 relayed_pairs, relayed_marks, relayed_paths, not_relayed, exits, relays_errors, proxied, released_relays, malformed_from_core, not_lisp):
        make()
    lines = ",\n".join("    " + json.dumps(c) for c in CASES)
    text = '{\n  "origin": "generate.py, with scapy; do not edit",\n  "router": ' + json.dumps(ROUTER, indent=2).replace("\n", "\n  ")
    text += ',\n  "cases": [\n' + lines + "\n  ]\n}\n"
    Path(__file__).with_name("golden.json").write_text(text)
    print(len(CASES), "cases")


if __name__ == "__main__":
    main()
