# SPDX-License-Identifier: Apache-2.0
"""Mapping sockets for Python 3: the format of docs/mapsock.md, without dependencies.

    with MapSocket("/run/loci/map.sock") as control:
        control.add("10.2.0.0/24", [Locator("192.0.2.2")])
        for message in control.listen():
            if message.type == MISS_EID:
                print(message.eid, "missed by", message.source)

A Message is what is written and read; its attributes are a list of (number, octets),
for which u32, u64, moment and the properties below have the meanings.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import struct
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Iterable, Iterator, Optional, Tuple, Type, Union

Attribute = Tuple[int, bytes]  # number, octets
Hop = Tuple[str, int, int]  # address, port, bits

VERSION = 2
MAX_MESSAGE, MAX_DATAGRAM, MAX_RLOCS = 65532, 65536, 32

# Types. Up to 12 they are OpenLISP's.
ADD, DELETE, CHANGE, GET, MISS, MISS_EID, MISS_HEADER, MISS_PACKET = 1, 2, 3, 4, 5, 6, 7, 8
LSBITS, LOCALSTALE, REMOTESTALE, NONCEMISMATCH = 9, 10, 11, 12
FLUSH, DUMP, SET_LOCATOR_STATE, DUMP_LOCATOR_STATES, SET_SETTINGS, GET_SETTINGS = 32, 33, 34, 35, 36, 37
GET_COUNTERS, LISTEN, DETACH, LOST, UNREACHABLE, MTU, ZERO_COUNTERS, GLEANED, GET_PATHS = 38, 39, 40, 41, 42, 43, 44, 45, 46
DUMP_HEARD, CONTROL_PACKET = 47, 48
PUT_FLOW, DELETE_FLOW, DUMP_FLOWS, SUBFLOW = 49, 50, 51, 52
WRITES = (ADD, DELETE, CHANGE, FLUSH, SET_LOCATOR_STATE, SET_SETTINGS, ZERO_COUNTERS, DETACH)  # whose answer is their echo

# Flags. Up to DONE they are OpenLISP's.
F_DB, F_VERSIONING, F_LOCBITS, F_STATIC, F_UP, F_ALL = 0x1, 0x2, 0x4, 0x8, 0x10, 0x20
F_EXPIRED, F_NEGATIVE, F_DONE = 0x40, 0x80, 0x100
F_OWN, F_REPLACE, F_MORE, F_AUTHORITATIVE, F_HANDED = 0x10000, 0x20000, 0x40000, 0x80000, 0x100000
F_SINCE, F_ECHO_NONCE, F_GLEANED, F_STALE = 0x200000, 0x400000, 0x800000, 0x1000000
F_BY_NAT, F_REGISTERED, F_FROM_CORE = 0x2000000, 0x4000000, 0x8000000

A_EID, A_EIDMASK, A_RLOC = 1, 2, 4
R_UP, R_LIF, R_TXNONCE, R_RXNONCE, R_LOCAL, R_PROBED = 0x1, 0x2, 0x4, 0x8, 0x10, 0x20
# States of a locator: packets go to the best that a mapping has: up, then heard, then unconfirmed.
S_UP, S_DOWN, S_UNCONFIRMED, S_HEARD = 0, 1, 2, 3
HEAR_OWN, HEAR_OPERATIONS, HEAR_EVENTS, HEAR_READS, HEAR_PACKETS = 1, 2, 4, 8, 16

# Attributes. With MANDATORY, who does not know one refuses the message.
MANDATORY = 0x8000
T_INSTANCE, T_EID, T_SOURCE, T_ACTION, T_TTL, T_CREATED, T_EXPIRES, T_LAST_USED = 1, 2, 3, 4, 5, 6, 7, 8
T_PACKETS, T_OCTETS, T_INTERFACE, T_LOCATOR_STATE, T_STATUS_BITS, T_RECEIVED_VERSION = 9, 10, 11, 12, 13, 14
T_MTU, T_ERROR, T_LOST, T_COUNT, T_LISTEN, T_MISS_FORM, T_PACKET, T_WATCHED = 15, 16, 17, 18, 19, 20, 21, 22
T_LOCAL_RLOC, T_MISS_POLICY, T_WAIT_BOUNDS, T_COUNTER, T_DROP, T_OTHER, T_NONCE = 23, 24, 25, 26, 27, 28, 29
T_OTHER_VERSION, T_STATUS_BIT_COUNT, T_ICMP, T_MISS_POLICY_OF, T_HEADER, T_ENCAPSULATION, T_LIST, T_PATH = 30, 31, 32, 33, 34, 35, 36, 37
T_HOPS, T_ROLE, T_RECURSION_DEPTH, T_SIBLING, T_RTR, T_OUTER, T_MARK_NATIVE = 38, 39, 40, 41, 42, 43, 44
T_FLOW, T_TABLES, T_SUBFLOWS, T_PATH_IDENTIFICATION = 45, 46, 47, 48

# What T_HOPS says of a hop: the S, P and L bits of RFC 8060, and that the hop came in an explicit locator path.
P_STRICT, P_PROBE, P_LOOKUP, P_EXPLICIT = 0x1, 0x2, 0x4, 0x8

# What data headers tell, for header_settings.
H_PUBLIC_INTERNET, H_STATUS_BITS, H_MAP_VERSIONS, H_ECHO_NONCE, H_GLEAN = 0x1, 0x2, 0x4, 0x8, 0x10

NO_ACTION, NATIVELY_FORWARD, SEND_MAP_REQUEST, DROP = 0, 1, 2, 3

# Host order, as C writes it.
HEADER = struct.Struct("=HBBIHHiiIiHH")
METRICS = struct.Struct("=BBHIIIBBH")
ATTRIBUTE = struct.Struct("=HH")
SOCKADDR_IN = struct.Struct("=HH4s8s")
SOCKADDR_IN6 = struct.Struct("=HHI16sI")
EID_NAME = 4  # kinds of EID: 1 IPv4, 2 IPv6, 3 MAC, 4 name


class FormatError(ValueError):
    """Octets that are not a message."""


class Refused(OSError):
    """A message that was not carried out: errno and the data plane's words."""


@dataclass
class Locator:
    """A locator with its metrics."""

    rloc: str
    priority: int = 1
    weight: int = 100
    flags: int = R_UP
    mtu: int = 0
    tx_nonce: int = 0
    rx_nonce: int = 0
    multicast_priority: int = 255
    multicast_weight: int = 0
    source_port: int = 0


@dataclass
class Message:
    """One message. eid is "10.0.0.0/24", or an address alone, without mask."""

    type: int
    flags: int = 0
    seq: int = 0
    eid: str = ""
    locators: list[Locator] = field(default_factory=list)
    attributes: list[Attribute] = field(default_factory=list)
    map_version: int = 0
    pid: int = 0
    errno: int = 0

    def value(self, number: int) -> Optional[bytes]:
        """The octets of the first attribute of a number, None without one."""
        return next((octets for n, octets in self.attributes if n & ~MANDATORY == number), None)

    def u32(self, number: int, default: int = 0) -> int:
        """The first attribute of a number as a number of 32 bits."""
        octets = self.value(number)
        return default if octets is None else int(unpack("=I", octets)[0])

    def u64(self, number: int, default: int = 0) -> int:
        """The first attribute of a number as a number of 64 bits."""
        octets = self.value(number)
        return default if octets is None else int(unpack("=Q", octets)[0])

    def moment(self, number: int) -> Optional[float]:
        """The first attribute of a number as seconds since 1970; None for none."""
        octets = self.value(number)
        seconds, nanoseconds = (0, 0) if octets is None else unpack("=qI", octets)
        return float(seconds + nanoseconds / 1e9) if seconds or nanoseconds else None

    @property
    def instance(self) -> int:
        """The Instance-ID of the EID."""
        return self.u32(T_INSTANCE)

    @property
    def source(self) -> str:
        """The source EID of a miss."""
        octets = self.value(T_SOURCE)
        if octets is None or len(octets) < 2:
            return ""
        return octets[2:].decode("ascii", "replace") if octets[0] == EID_NAME else address_of(octets[2:])

    @property
    def error(self) -> str:
        """Why the message was not carried out, in words."""
        octets = self.value(T_ERROR) or b""
        return octets[4:].decode("utf-8", "replace") or os.strerror(self.errno)

    @property
    def counters(self) -> dict[str, int]:
        """The counters that a message tells, drops and others by their names alone."""
        return {
            octets[8:].decode(): unpack("=Q", octets[:8])[0]
            for n, octets in self.attributes
            if n & ~MANDATORY in (T_COUNTER, T_DROP, T_OTHER) and len(octets) >= 8
        }

    def encode(self) -> bytes:
        """The octets of the message."""
        addresses, bits = b"", 0
        if self.eid:
            address, slash, _ = self.eid.partition("/")
            addresses, bits = sockaddr(address), A_EID
            if slash:
                network = ipaddress.ip_network(self.eid)  # refuses host bits
                addresses += sockaddr(str(network.netmask))
                bits |= A_EIDMASK
        for locator in self.locators:
            bits |= A_RLOC
            addresses += sockaddr(locator.rloc) + METRICS.pack(
                locator.priority, locator.weight, locator.flags, locator.mtu, locator.tx_nonce, locator.rx_nonce,
                locator.multicast_priority, locator.multicast_weight, locator.source_port)
        attributes = b"".join(
            ATTRIBUTE.pack(number, len(octets)) + octets + b"\0" * (-len(octets) % 4) for number, octets in self.attributes)
        begin = HEADER.size + len(addresses)
        length = begin + len(attributes)
        if length > MAX_MESSAGE or len(self.locators) > MAX_RLOCS:
            raise FormatError(f"{length} octets, {len(self.locators)} locators: too much for a message")
        header = HEADER.pack(length, VERSION, self.type, self.flags, bits, self.map_version, len(self.locators),
                             self.pid, self.seq, self.errno, begin, 0)
        return header + addresses + attributes


def unpack(form: str, octets: bytes) -> Tuple[Any, ...]:
    """struct.unpack with the error of this module."""
    if struct.calcsize(form) != len(octets):
        raise FormatError(f"{len(octets)} octets, want {struct.calcsize(form)}")
    return struct.unpack(form, octets)


def address_of(octets: bytes) -> str:
    """The text of an address of 4 or 16 octets, or of 6 for a MAC address."""
    if len(octets) == 6:
        return octets.hex(":")
    if len(octets) not in (4, 16):
        raise FormatError(f"an address of {len(octets)} octets")
    return str(ipaddress.ip_address(octets))


def sockaddr(address: str) -> bytes:
    """The sockaddr of an address."""
    parsed = ipaddress.ip_address(address)
    if parsed.version == 4:
        return SOCKADDR_IN.pack(socket.AF_INET, 0, parsed.packed, b"")
    return SOCKADDR_IN6.pack(socket.AF_INET6, 0, 0, parsed.packed, 0)


def read_sockaddr(octets: bytes, at: int) -> Tuple[Union[ipaddress.IPv4Address, ipaddress.IPv6Address], int]:
    """The address at an offset, and where it ends."""
    family = int.from_bytes(octets[at:at + 2], "little" if struct.pack("=H", 1)[0] else "big")
    forms: dict[int, struct.Struct] = {socket.AF_INET: SOCKADDR_IN, socket.AF_INET6: SOCKADDR_IN6}
    form = forms.get(family)
    if form is None or len(octets) < at + form.size:
        raise FormatError(f"no address at offset {at}: family {family}, {len(octets) - at} octets")
    parts = form.unpack_from(octets, at)
    return ipaddress.ip_address(parts[2] if form is SOCKADDR_IN else parts[3]), at + form.size


def decode(octets: bytes) -> Message:
    """One message of octets that hold no more."""
    if len(octets) < HEADER.size:
        raise FormatError(f"{len(octets)} octets are not a message")
    length, version, kind, flags, bits, map_version, count, pid, seq, error, begin, _ = HEADER.unpack_from(octets)
    if version != VERSION:
        raise FormatError(f"version {version}, want {VERSION}")
    message = Message(kind, flags, seq, map_version=map_version, pid=pid, errno=error)
    at = HEADER.size
    if bits & A_EID:
        eid, at = read_sockaddr(octets, at)
        message.eid = str(eid)
        if bits & A_EIDMASK:
            mask, at = read_sockaddr(octets, at)
            message.eid += f"/{bin(int(mask)).count('1')}"
    for _ in range(min(max(count, 0), MAX_RLOCS)):
        rloc, at = read_sockaddr(octets, at)
        if len(octets) < at + METRICS.size:
            raise FormatError(f"metrics at offset {at} are cut off")
        message.locators.append(Locator(str(rloc), *METRICS.unpack_from(octets, at)))
        at += METRICS.size
    if at != begin:
        raise FormatError(f"attributes begin at {begin}, but addresses end at {at}")
    while at < len(octets):
        if len(octets) < at + ATTRIBUTE.size:
            raise FormatError(f"attribute at offset {at} is cut off")
        number, size = ATTRIBUTE.unpack_from(octets, at)
        at += ATTRIBUTE.size
        if len(octets) < at + size:
            raise FormatError(f"attribute {number} at offset {at} is cut off")
        message.attributes.append((number & ~MANDATORY, octets[at:at + size]))
        at += size + -size % 4
    return message


def split(datagram: bytes) -> Iterator[Message]:
    """The messages of a datagram."""
    while datagram:
        length = struct.unpack_from("=H", datagram)[0] if len(datagram) >= HEADER.size else 0
        if length < HEADER.size or length > len(datagram) or length % 4:
            raise FormatError(f"length {length} of {len(datagram)} octets")
        yield decode(datagram[:length])
        datagram = datagram[length:]


def u32(number: int, value: int) -> Attribute:
    """An attribute of 32 bits."""
    return number, struct.pack("=I", value)


def header_settings(bits: int = 0, source_check: int = 0, echo_wait: float = 0, echo_interval: float = 0) -> Attribute:
    """An attribute of settings: H_PUBLIC_INTERNET and others; times in seconds, 0 for the usual."""
    return T_HEADER | MANDATORY, struct.pack("=IIQQ", bits, source_check, int(echo_wait * 1e9), int(echo_interval * 1e9))


def encapsulation(number: int, rlocs: str = "") -> Attribute:
    """An attribute of settings: 0 LISP, 1 LISP-GPE, 2 VXLAN-GPE to the RLOCs of a prefix, or to all."""
    prefix = ipaddress.ip_network(rlocs) if rlocs else None
    octets = prefix.network_address.packed if prefix else b""
    return T_ENCAPSULATION | MANDATORY, struct.pack("=II", number, prefix.prefixlen if prefix else 0) + octets


def hops(locator: int, path: Iterable[Hop], next_hop: int = 0) -> Attribute:
    """An attribute of an add: the path of a locator, counted from 0, as (address, port, bits) of each hop, and the hop to send to."""
    value = struct.pack("=II", locator, next_hop)
    for address, port, bits in path:
        octets = ipaddress.ip_address(address).packed
        value += struct.pack("=HBB", port, bits, len(octets)) + octets
    return T_HOPS | MANDATORY, value


def flow(protocol: int, source: str, source_port: int, destination: str, destination_port: int) -> Attribute:
    """An attribute of PUT_FLOW and DELETE_FLOW: one direction of a connection between two EIDs."""
    eids = ipaddress.ip_address(source).packed + ipaddress.ip_address(destination).packed
    return T_FLOW | MANDATORY, struct.pack("=BxHHxx", protocol, source_port, destination_port) + eids


def role(number: int, eids: Iterable[str], instance: int = 0, sources: Iterable[str] = ()) -> Attribute:
    """An attribute of settings: 0 RTR, 1 PITR, 2 PETR for the EIDs of some prefixes; a PITR for packets of some sources alone."""
    return T_ROLE | MANDATORY, struct.pack("=II", number, instance) + listed(eids, sources)


def listed(*lists: Iterable[str]) -> bytes:
    """Prefixes, each with the number of the list it is in."""
    value = b""
    for number, prefixes in enumerate(lists):
        for prefix in map(ipaddress.ip_network, prefixes):
            octets = prefix.network_address.packed
            value += struct.pack("BBBx", number, prefix.prefixlen, len(octets)) + octets
    return value


def access_list(packets: int, address: int, instance: int = 0, allow: Iterable[str] = (), deny: Iterable[str] = ()) -> Attribute:
    """An attribute of settings: packets 0 towards the core, 1 from it; address 0 and 1 inner source and destination, 2 and 3 outer."""
    return T_LIST | MANDATORY, struct.pack("=II", packets * 256 + address, instance) + listed(allow, deny)


class MapSocket:
    """A connection to a data plane. Not for several threads at a time."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.connect(path)
        self.seq = 0
        self.waiting: list[Message] = []  # messages that came while an answer was waited for
        self.hears_own = True

    def __enter__(self) -> MapSocket:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection. The tables stay."""
        self.socket.close()

    def fileno(self) -> int:
        """For select; look at what listen gives before you wait again."""
        return self.socket.fileno()

    def send(self, *messages: Message) -> None:
        """Sends messages in one datagram, numbered."""
        for message in messages:
            self.seq = (self.seq + 1) & 0xFFFFFFFF
            message.seq = self.seq
        self.socket.send(b"".join(message.encode() for message in messages))

    def receive(self) -> list[Message]:
        """Waits for a datagram and gives its messages; EOFError when the data plane has gone."""
        datagram = self.socket.recv(MAX_DATAGRAM)
        if not datagram:
            raise EOFError("the data plane has gone")
        return list(split(datagram))

    def answers(self, message: Message) -> Iterator[Message]:
        """Sends a message and yields its answers; what else comes waits for listen."""
        self.send(message)
        while True:
            arrived = self.receive()
            for i, answer in enumerate(arrived):
                if not (answer.flags & F_OWN and answer.seq == message.seq):
                    self.waiting.append(answer)
                    continue
                more = answer.flags & F_MORE
                if not more:
                    self.waiting += arrived[i + 1:]
                if answer.errno:
                    raise Refused(answer.errno, answer.error)
                yield answer
                if not more:
                    return

    def ask(self, message: Message) -> Message:
        """Sends a message and returns its answer; Refused when it was not carried out."""
        return list(self.answers(message))[-1]

    def listen(self, timeout: Optional[float] = None) -> Iterator[Message]:
        """Yields what is told, until nothing came for timeout seconds; 0 gives what is there, None waits without end."""
        while True:
            while self.waiting:
                message = self.waiting.pop(0)
                if self.hears_own or not echo_of_own(message):
                    yield message
            self.socket.settimeout(timeout)
            try:
                self.waiting = self.receive()
            except (socket.timeout, BlockingIOError):  # the second with a timeout of 0
                return
            finally:
                self.socket.settimeout(None)

    def hear(self, mask: int) -> Message:
        """Chooses what is told: HEAR_OWN and others."""
        # The answer to a write is its echo: it is always asked for, and listen leaves it out.
        answer = self.ask(Message(LISTEN, attributes=[u32(T_LISTEN | MANDATORY, mask | HEAR_OWN)]))
        self.hears_own = bool(mask & HEAR_OWN)
        return answer

    def add(self, eid: str, locators: Iterable[Locator] = (), *, instance: int = 0, ttl: int = 1440, action: int = NO_ACTION,
            flags: int = F_REPLACE) -> Message:
        """Adds or replaces a mapping; one without locators is negative."""
        locators = list(locators)
        if not locators and not flags & F_DB:
            flags |= F_NEGATIVE
        attributes = [] if flags & F_DB else [u32(T_ACTION | MANDATORY, action), u32(T_TTL, ttl)]
        if instance:
            attributes.append(u32(T_INSTANCE | MANDATORY, instance))
        return self.ask(Message(ADD, flags, eid=eid, locators=locators, attributes=attributes))

    def delete(self, eid: str, *, instance: int = 0, flags: int = 0) -> Message:
        """Deletes a mapping."""
        attributes = [u32(T_INSTANCE | MANDATORY, instance)] if instance else []
        return self.ask(Message(DELETE, flags, eid=eid, attributes=attributes))

    def get(self, eid: str, *, instance: int = 0, flags: int = 0) -> Optional[Message]:
        """The entry of a prefix, or the longest that covers an address; None for none."""
        attributes = [u32(T_INSTANCE | MANDATORY, instance)] if instance else []
        try:
            return self.ask(Message(GET, flags, eid=eid, attributes=attributes))
        except Refused as refused:
            if refused.errno == errno.ESRCH:
                return None
            raise

    def dump(self, flags: int = 0) -> Iterator[Message]:
        """Yields all entries of the map-cache, with F_DB of the Database, with F_ALL of both."""
        for answer in self.answers(Message(DUMP, flags)):
            if answer.flags & F_MORE:
                yield answer

    def flush(self, flags: int = 0) -> Message:
        """Empties the map-cache, with F_DB the Database, with F_ALL both."""
        return self.ask(Message(FLUSH, flags))

    def counters(self) -> dict[str, int]:
        """The data plane's counters by name."""
        return self.ask(Message(GET_COUNTERS)).counters


def echo_of_own(message: Message) -> bool:
    """Whether a message is the echo of a write of this connection that was carried out."""
    return bool(message.flags & F_OWN and message.flags & F_DONE and not message.errno and message.type in WRITES)


def expired(message: Message, now: Optional[float] = None) -> bool:
    """Whether the TTL of an entry has ended."""
    ends = message.moment(T_EXPIRES)
    return not message.flags & F_STATIC and ends is not None and ends <= (time.time() if now is None else now)
