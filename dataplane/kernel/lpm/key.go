// SPDX-License-Identifier: Apache-2.0

// This file names entries, and the roots that they are below. It never touches a table.

package lpm

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/lisp"
)

const ()

// Key names an entry of either table. It holds no pointer, so that the
// collector need not walk the index of a large table.
type Key struct {
	Kind, Family, Bits uint8
	Instance           uint32
	Address            [16]byte
}

// KeyOf returns the key of a prefix, or why this engine cannot forward it.
func KeyOf(kind uint8, prefix lisp.Prefix) (Key, error) {
	p := prefix.Netip()
	if !p.IsValid() {
		return Key{}, fmt.Errorf("prefix %v: %w: only IPv4 and IPv6", prefix, dataplane.ErrUnsupported)
	}
	if prefix.Instance() > lisp.MaxInstanceID {
		return Key{}, fmt.Errorf("prefix %v: %w: the data header holds an Instance-ID of 24 bits", prefix, dataplane.ErrUnsupported)
	}
	return Key{
		Kind: kind, Family: abi.Family(p.Addr()), Bits: uint8(p.Bits()),
		Instance: uint32(prefix.Instance()), Address: abi.Octets(p.Addr()),
	}, nil
}

// octets returns the address's octets, as many as its family has.
func (k *Key) octets() []byte {
	return k.Address[:abi.AddressOctets(k.Family)]
}

func (k *Key) trieKey() trieKey { return trieKeyOf(k.octets()) }

// Root returns the key of the root below which the entry stands.
func (k *Key) Root() RootKey {
	return RootKey{Kind: k.Kind, Family: k.Family, Instance: k.Instance}
}

// Shorter returns the key of the prefix of so many bits that covers k's.
func (k Key) Shorter(bits int) Key {
	for i := bits / 8; i < len(k.Address); i++ {
		mask := byte(0)
		if i == bits/8 {
			mask = ^(byte(0xFF) >> (bits % 8))
		}
		k.Address[i] &= mask
	}
	k.Bits = uint8(bits)
	return k
}

// Prefix is the inverse of keyOf.
func (k *Key) Prefix() (lisp.Prefix, error) {
	address, ok := netip.AddrFromSlice(k.octets())
	if !ok {
		return lisp.Prefix{}, fmt.Errorf("family %d is neither 4 nor 6", k.Family)
	}
	return lisp.PrefixFrom(lisp.InstanceID(k.Instance), lisp.EIDFromAddr(address), int(k.Bits))
}

// CheckKey says what is wrong with a key that no prefix has.
func CheckKey(key Key) error {
	if key.Family != 4 && key.Family != 6 {
		return fmt.Errorf("family %d is neither 4 nor 6", key.Family)
	}
	if int(key.Bits) > 8*abi.AddressOctets(key.Family) || key != key.Shorter(int(key.Bits)) {
		return fmt.Errorf("prefix of %d bits has more", key.Bits)
	}
	return nil
}

// A RootKey names a root: where walks of one table, family and Instance-ID begin.
type RootKey struct {
	Kind, Family uint8
	Instance     uint32
}

// Position is where the root stands among those of its Instance-ID.
func (k RootKey) Position() int {
	if k.Family == 6 {
		return int(k.Kind) + 1
	}
	return int(k.Kind)
}

// RootKeyAt is the inverse of position.
func RootKeyAt(instance uint32, position int) RootKey {
	return RootKey{Kind: uint8(position &^ 1), Family: uint8(4 + 2*(position&1)), Instance: instance}
}

// A trieKey is an address, its first bit the highest of hi.
type trieKey struct{ hi, lo uint64 }

// trieKeyOf takes 4 or 16 octets.
func trieKeyOf(address []byte) trieKey {
	if len(address) == 4 {
		return trieKey{hi: uint64(binary.BigEndian.Uint32(address)) << 32}
	}
	return trieKey{binary.BigEndian.Uint64(address), binary.BigEndian.Uint64(address[8:])}
}

// from returns the key without its first n bits.
func (k trieKey) from(n int) trieKey {
	if n >= 64 {
		return trieKey{hi: k.lo << (n - 64)}
	}
	return trieKey{k.hi<<n | k.lo>>(64-n), k.lo << n}
}

// top returns the first n bits, of 32 at most.
func (k trieKey) top(n int) uint32 { return uint32(k.hi >> (64 - n)) }
