#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A control plane in Python: answers the misses of a data plane from a file.

    controlplane.py SOCKET MAPPINGS

Each line of the file is an EID-Prefix and its locators, or an action:

    # EID-Prefix       RLOC[,priority,weight] ...  or  drop | natively-forward
    10.2.0.0/24        192.0.2.2 192.0.2.3,2,100
    [7]10.2.0.0/24     2001:db8:ff00::2
    10.9.0.0/16        drop

What no line covers is dropped for a minute. Mappings live for an hour and are removed
when their time has come. The file is read again when it has changed: then mappings
that are in use and not in the file are removed.
"""

from __future__ import annotations

import ipaddress
import os
import sys
import time
from typing import List, Optional, Tuple, Union

import mapsock

Prefix = Union[ipaddress.IPv4Network, ipaddress.IPv6Network]
Key = Tuple[int, Prefix]  # Instance-ID, EID-Prefix
Reply = Tuple[List[mapsock.Locator], int]  # locators, action

ACTIONS = {"drop": mapsock.DROP, "natively-forward": mapsock.NATIVELY_FORWARD}
TTL_MINUTES, NEGATIVE_TTL_MINUTES, TICK_SECONDS = 60, 1, 1.0


class Mappings:
    """The mappings of a file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.read_at: Optional[int] = None
        self.entries: dict[Key, Reply] = {}

    def read(self) -> bool:
        """Reads the file when it has changed, and says whether it had."""
        changed_at = os.stat(self.path).st_mtime_ns
        if changed_at == self.read_at:
            return False
        with open(self.path, encoding="utf-8") as lines:
            rows = [(number, line.split("#")[0].split()) for number, line in enumerate(lines, 1)]
        self.entries = dict(self.entry(number, words) for number, words in rows if words)
        self.read_at = changed_at
        return True

    def entry(self, number: int, words: list[str]) -> Tuple[Key, Reply]:
        """One line: ((Instance-ID, EID-Prefix), (locators, action))."""
        try:
            instance, _, prefix = words[0].rpartition("]")
            key = int(instance.lstrip("[") or 0), ipaddress.ip_network(prefix)
            if words[1] in ACTIONS:
                return key, ([], ACTIONS[words[1]])
            return key, ([self.locator(word) for word in words[1:]], mapsock.NO_ACTION)
        except (ValueError, IndexError) as wrong:
            sys.exit(f"{self.path}, line {number}: {wrong}: want an EID-Prefix and RLOCs, or an action")

    @staticmethod
    def locator(word: str) -> mapsock.Locator:
        """RLOC[,priority,weight]."""
        rloc, *metrics = word.split(",")
        return mapsock.Locator(str(ipaddress.ip_address(rloc)), *map(int, metrics))

    def find(self, instance: int, eid: str) -> Optional[Prefix]:
        """The longest prefix that covers an EID."""
        address = ipaddress.ip_address(eid)
        covering = [prefix for i, prefix in self.entries if i == instance and prefix.version == address.version and address in prefix]
        return max(covering, key=lambda prefix: prefix.prefixlen) if covering else None


def answer(control: mapsock.MapSocket, mappings: Mappings, miss: mapsock.Message) -> None:
    """Answers a miss by the file."""
    prefix = mappings.find(miss.instance, miss.eid)
    if prefix is None:
        host = ipaddress.ip_network(miss.eid)
        control.add(str(host), instance=miss.instance, ttl=NEGATIVE_TTL_MINUTES, action=mapsock.DROP)
        print(f"{miss.source} -> {miss.eid}: in no mapping, dropped", flush=True)
        return
    locators, action = mappings.entries[miss.instance, prefix]
    control.add(str(prefix), locators, instance=miss.instance, ttl=TTL_MINUTES, action=action)
    print(f"{miss.source} -> {miss.eid}: {prefix}", flush=True)


def tidy(control: mapsock.MapSocket, mappings: Mappings, changed: bool) -> None:
    """Removes what has expired, and after a change of the file what is not in it."""
    for entry in list(control.dump()):
        known = (entry.instance, ipaddress.ip_network(entry.eid)) in mappings.entries
        if mapsock.expired(entry):
            control.delete(entry.eid, instance=entry.instance, flags=mapsock.F_EXPIRED)
        elif changed and not known and not entry.flags & mapsock.F_STATIC:
            control.delete(entry.eid, instance=entry.instance)


def turn(control: mapsock.MapSocket, mappings: Mappings) -> None:
    """A second of answering misses, or less when there are none."""
    tidy(control, mappings, mappings.read())
    begin = time.monotonic()
    for message in control.listen(timeout=TICK_SECONDS):
        if message.type == mapsock.MISS_EID:
            answer(control, mappings, message)
        if time.monotonic() - begin > TICK_SECONDS:
            return


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    mappings = Mappings(sys.argv[2])
    with mapsock.MapSocket(sys.argv[1]) as control:
        control.hear(mapsock.HEAR_OWN | mapsock.HEAR_EVENTS)
        while True:
            try:
                turn(control, mappings)
            except mapsock.Refused as refused:
                print(f"refused: {refused.strerror}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        main()
    except (EOFError, KeyboardInterrupt):
        pass
