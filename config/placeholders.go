// SPDX-License-Identifier: Apache-2.0

package config

// Values that everybody knows: those of our own examples, which are copied and forgotten,
// and the passwords that are tried first. A test holds them against the examples.

import (
	"strings"

	"loci/config/source"
)

// exampleKeys are the keys of examples/ and of the documents.
var exampleKeys = map[string]bool{
	"replace-by-32-random-characters": true,
	"and-this-by-32-other-characters": true,
	"the-next-key-of-this-very-site":  true,
	"a-secret-of-your-own":            true,
}

// guessedKeys are what attackers try first; compared in lower case.
var guessedKeys = map[string]bool{
	"password": true, "passw0rd": true, "password1": true, "password123": true, "changeme": true, "change-me": true, "change_me": true,
	"replaceme": true, "replace-me": true, "lispsecret": true, "lisp-secret": true, "12345678": true, "123456789": true, "1234567890": true,
	"secretkey": true, "secret-key": true, "verysecret": true, "very-secret": true, "topsecret": true, "qwertyuiop": true,
}

// exampleXTRIDs are those of the examples; two routers that share one are one to a Map-Server.
var exampleXTRIDs = map[string]bool{
	"6f1c3a520d7e4b0e9a532f6c1d0b7e11": true,
	"3f1c0a526f0e4a599c111f6b7f5f0001": true,
}

const newKeyHint = "make your own: openssl rand -hex 32"

// warnOfKey warns of a key that others know, and of one that came with more than itself.
func warnOfKey(c *Config, k placedKey) {
	at := k.path + "." + source.SecretKey
	if k.File != "" {
		at = k.path + ".auth-key-file"
	}
	switch {
	case exampleKeys[k.Value.value]:
		c.warn(at, "this key stands in Loci's examples: everybody knows it", newKeyHint)
	case guessedKeys[strings.ToLower(k.Value.value)]:
		c.warn(at, "this key is one of the first that attackers try", newKeyHint)
	case strings.TrimSpace(k.Value.value) != k.Value.value:
		c.warn(at, "the key begins or ends with a space", "remove it unless the other side has it, too: the keys must be equal")
	case inQuotes(k.Value.value):
		c.warn(at, "the key itself begins and ends with quotes", "remove them unless the other side has them, too: the keys must be equal")
	}
}

// inQuotes reports whether quotes, straight or typographic, are part of a text.
func inQuotes(text string) bool {
	const quotes = source.OpeningQuotes + `"'`
	runes := []rune(text)
	return len(runes) > 1 && strings.ContainsRune(quotes, runes[0]) && strings.ContainsRune(quotes, runes[len(runes)-1])
}

func warnOfKnownXTRID(c *Config) {
	if c.RouterID != nil && exampleXTRIDs[c.RouterID.XTRID.String()] {
		c.warn("lisp-router-id.xtr-id", "xtr-id: this xTR-ID stands in Loci's examples", "make your own with uuidgen: a Map-Server takes two routers with the same xTR-ID for one")
	}
}
