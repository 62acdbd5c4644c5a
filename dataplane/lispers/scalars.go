// SPDX-License-Identifier: Apache-2.0

package lispers

// The scalars of the interface: numbers written as strings, numbers written as
// numbers, seconds, keys. Readers take a whole number in either spelling, because
// deployed planes differ; writers keep to the samples. Nothing here accepts a sign, a
// fraction where a whole number is due, or a number that is out of range.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// decimal is a whole number that is written as a string.
type decimal struct {
	n       uint64
	present bool
}

// whole is a whole number that is written as a number.
type whole decimal

func decimalOf[T ~uint8 | ~uint16 | ~uint32 | ~uint64](n T) decimal {
	return decimal{n: uint64(n), present: true}
}

func wholeOf[T ~uint16 | ~uint64](n T) whole { return whole{n: uint64(n), present: true} }

// MarshalJSON writes the number as a string.
func (d decimal) MarshalJSON() ([]byte, error) {
	return strconv.AppendQuote(nil, strconv.FormatUint(d.n, 10)), nil
}

// UnmarshalJSON reads a number or a string that is one.
func (d *decimal) UnmarshalJSON(text []byte) error { return readWhole(text, d) }

// MarshalJSON writes the number.
func (w whole) MarshalJSON() ([]byte, error) { return strconv.AppendUint(nil, w.n, 10), nil }

// UnmarshalJSON reads a number or a string that is one.
func (w *whole) UnmarshalJSON(text []byte) error { return readWhole(text, (*decimal)(w)) }

func readWhole(text []byte, d *decimal) error {
	if string(text) == "null" {
		return nil
	}
	digits := text
	if len(text) >= 2 && text[0] == '"' {
		digits = bytes.Trim(text[1:len(text)-1], " ")
	}
	n, err := strconv.ParseUint(string(digits), 10, 64)
	if err != nil {
		return fmt.Errorf("%s is not a whole number", shorten(text))
	}
	*d = decimal{n: n, present: true}
	return nil
}

// within returns the number when it is there and at most limit.
func (d decimal) within(field string, limit uint64) (uint64, error) {
	switch {
	case !d.present:
		return 0, missing(field)
	case d.n > limit:
		return 0, refuse(field, "%d, at most %d", d.n, limit)
	}
	return d.n, nil
}

// or is the number, or another where it is missing.
func (d decimal) or(otherwise uint64) decimal {
	if !d.present {
		return decimalOf(otherwise)
	}
	return d
}

// maxSeconds bounds ages, so that they stay durations: about 30 years.
const maxSeconds = 1e9

// seconds is an age; fractions are allowed.
type seconds float64

// UnmarshalJSON reads an age from 0 to maxSeconds.
func (s *seconds) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	f, err := strconv.ParseFloat(string(bytes.Trim(text, `"`)), 64)
	if err != nil || !(f >= 0 && f <= maxSeconds) {
		return fmt.Errorf("%s is not an age in seconds", shorten(text))
	}
	*s = seconds(f)
	return nil
}

// Key is a key of LISP-crypto (RFC 8061) as the interface carries it. Its texts are
// secrets: no log and no message shows them.
type Key struct {
	ID     uint8  // 1 to 7 with LISP's KK bits widened; 0 is no key
	Cipher string // hexadecimal; of encryption in mappings, of decryption in decap-keys
	ICV    string // hexadecimal; of the integrity check
}

// String names the key and keeps it secret.
func (k Key) String() string { return fmt.Sprintf("key %d", k.ID) }

// GoString is String, so that no verb of fmt tells the secret.
func (k Key) GoString() string { return k.String() }

const (
	// maxKeys is how many keys one locator may carry.
	maxKeys = 8
	// maxKeyDigits is the longest key in hexadecimal digits: 1024 bits.
	maxKeyDigits = 256
)

type keyJSON struct {
	ID      decimal `json:"key-id"`
	Encrypt string  `json:"encrypt-key,omitempty"`
	Decrypt string  `json:"decrypt-key,omitempty"`
	ICV     string  `json:"icv-key,omitempty"`
}

func (k keyJSON) key() (Key, error) {
	id, err := k.ID.within("key-id", 255)
	if err != nil {
		return Key{}, err
	}
	key := Key{ID: uint8(id), Cipher: k.Encrypt + k.Decrypt, ICV: k.ICV}
	if k.Encrypt != "" && k.Decrypt != "" {
		return Key{}, refuse("keys", "key %d encrypts and decrypts", id)
	}
	return key, key.check()
}

// check says what is wrong with a key, never showing it.
func (k Key) check() error {
	for field, text := range map[string]string{"cipher": k.Cipher, "icv": k.ICV} {
		if len(text) > maxKeyDigits {
			return refuse("keys", "%s of key %d has %d digits, at most %d", field, k.ID, len(text), maxKeyDigits)
		}
		for i := range len(text) {
			if !isHex(text[i]) {
				return refuse("keys", "%s of key %d is not hexadecimal at digit %d", field, k.ID, i)
			}
		}
	}
	return nil
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func readKeys(list []keyJSON) ([]Key, error) {
	if len(list) > maxKeys {
		return nil, refuse("keys", "%d of them, at most %d", len(list), maxKeys)
	}
	keys := make([]Key, 0, len(list))
	for _, raw := range list {
		key, err := raw.key()
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func encryptKeys(keys []Key) []keyJSON {
	list := make([]keyJSON, 0, len(keys))
	for _, k := range keys {
		list = append(list, keyJSON{ID: decimalOf(k.ID), Encrypt: k.Cipher, ICV: k.ICV})
	}
	return list
}

func decryptKeys(keys []Key) []keyJSON {
	list := make([]keyJSON, 0, len(keys))
	for _, k := range keys {
		list = append(list, keyJSON{ID: decimalOf(k.ID), Decrypt: k.Cipher, ICV: k.ICV})
	}
	return list
}

// maxQuoted is how much of a bad value an error repeats, in octets.
const maxQuoted = 40

func shorten(text []byte) string {
	if len(text) > maxQuoted {
		return fmt.Sprintf("%.40q…", text)
	}
	return fmt.Sprintf("%q", text)
}

// encode writes a message. Messages are made of values that always encode.
func encode(m any) []byte {
	text, err := json.Marshal(m)
	if err != nil {
		panic("lispers: " + err.Error()) // a mistake of this package, never of a peer
	}
	return text
}
