// SPDX-License-Identifier: Apache-2.0

package mapcmd

// Locators that are paths, as words: hops separated by commas, as the segments of `ip route ... encap seg6` are, and
// what is said of a hop as letters behind a plus sign: 192.0.2.9+S,192.0.2.2:4343. A shell reads neither. The port
// that packets to a locator leave from stands at the end, behind an at sign: 192.0.2.2@4341.

import (
	"fmt"
	"strconv"
	"strings"

	"loci/lisp"
)

// The letters of a hop. N stands with the hop that packets go to, where that is not the first.
const nextLetter = 'N'

var hopLetters = [...]struct {
	letter byte
	bit    lisp.HopBits
	word   string // in JSON, of the YANG module's lrs-bits
}{{'L', lisp.HopLookup, "lookup"}, {'P', lisp.HopProbe, "rloc-probe"}, {'S', lisp.HopStrict, "strict"}, {'E', lisp.HopExplicit, ""}}

// hop is a hop of an explicit locator path.
type hop struct {
	RLOC    lisp.RLOC `json:"rloc"`
	LRSBits []string  `json:"lrs_bits"`
}

// hopsOf are the hops of an explicit locator path, nil of a plain RLOC.
func hopsOf(l *lisp.Locator) (hops []hop) {
	path := l.Path()
	if path.IsPlain() && !l.Bits.Has(0, lisp.HopExplicit) {
		return nil
	}
	for i, rloc := range path.Hops() {
		h := hop{RLOC: rloc}
		for _, known := range hopLetters {
			if known.word != "" && l.Bits.Has(i, known.bit) {
				h.LRSBits = append(h.LRSBits, known.word)
			}
		}
		hops = append(hops, h)
	}
	return hops
}

// parsePath reads an RLOC, with its port where it has one, or a path, and its source port.
func parsePath(word string) (l lisp.Locator, err error) {
	hopWords, port, ported := strings.Cut(word, "@")
	if ported {
		source, err := strconv.ParseUint(port, 10, 16)
		if err != nil || source == 0 {
			return l, fmt.Errorf("RLOC %s: source port %q: want 1 to 65535 behind @", word, port)
		}
		l.SourcePort = uint16(source)
	}
	texts := strings.Split(hopWords, ",")
	if len(texts) > lisp.MaxHops {
		return l, fmt.Errorf("RLOC %s: a path has at most %d hops", word, lisp.MaxHops)
	}
	hops, next := make([]lisp.RLOC, len(texts)), -1
	for i, text := range texts {
		address, letters, explicit := strings.Cut(text, "+")
		if hops[i], err = lisp.ParseRLOCPort(address); err != nil {
			return l, err
		}
		var isNext bool
		if l.Bits[i], isNext, err = parseHopLetters(letters); err != nil || explicit && letters == "" {
			return l, fmt.Errorf("RLOC %s: +%s behind a hop: want one or more of L, P, S, E and N", word, letters)
		}
		if isNext && next >= 0 {
			return l, fmt.Errorf("RLOC %s: N stands with two hops: packets go to one", word)
		} else if isNext {
			next = i
		}
		if len(texts) > 1 || l.Bits[i] != 0 {
			l.Bits[i] |= lisp.HopExplicit
		}
	}
	path, err := lisp.NewPath(hops...)
	if err != nil {
		return l, fmt.Errorf("RLOC %s: %w", word, err)
	}
	l.RLOC, l.Behind, l.Next = path.RLOC, path.Behind, uint8(max(next, 0))
	return l, nil
}

func parseHopLetters(letters string) (bits lisp.HopBits, next bool, err error) {
	for i := range len(letters) {
		was := bits
		for _, known := range hopLetters {
			if letters[i] == known.letter {
				bits |= known.bit
			}
		}
		isNext := letters[i] == nextLetter && !next
		next = next || isNext
		if bits == was && !isNext {
			return 0, false, fmt.Errorf("letter %q", letters[i])
		}
	}
	return bits, next, nil
}

// pathText is what parsePath reads.
func pathText(l *lisp.Locator) string {
	path := l.Path()
	texts := make([]string, path.Len())
	for i := range texts {
		texts[i] = path.Hop(i).String()
		if letters := hopText(l, i); letters != "" {
			texts[i] += "+" + letters
		}
	}
	text := strings.Join(texts, ",")
	if l.SourcePort != 0 {
		text += "@" + strconv.Itoa(int(l.SourcePort))
	}
	return text
}

func hopText(l *lisp.Locator, hop int) string {
	var letters []byte
	for _, known := range hopLetters {
		if l.Bits.Has(hop, known.bit) && known.bit != lisp.HopExplicit {
			letters = append(letters, known.letter)
		}
	}
	if len(letters) == 0 && l.Behind == "" && l.Bits.Has(hop, lisp.HopExplicit) {
		letters = append(letters, 'E') // goes without saying everywhere else
	}
	if hop > 0 && hop == int(l.Next) {
		letters = append(letters, nextLetter)
	}
	return string(letters)
}
