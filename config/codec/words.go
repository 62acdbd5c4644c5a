// SPDX-License-Identifier: Apache-2.0

package codec

// The words of the file read by type: durations, numbers and other words; addresses and
// prefixes are in addresses.go. Each gives "" when the word is right, else what is wrong
// and a hint.

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"loci/config/source"
)

func setBool(n *source.Node, v reflect.Value) (message, hint string) {
	if n.Quoted || n.Text != "true" && n.Text != "false" {
		return fmt.Sprintf("%s is neither true nor false", shown(n)), "write true or false, without quotes"
	}
	v.SetBool(n.Text == "true")
	return "", ""
}

// shown is a word as it stands in the file.
func shown(n *source.Node) string {
	if n.Quoted {
		return strconv.Quote(n.Text) + " in quotes"
	}
	return strconv.Quote(n.Text)
}

func setString(text string, v reflect.Value, rules reflect.StructTag) (message, hint string) {
	if words := rules.Get("oneof"); words != "" {
		list := strings.Split(words, ",")
		for _, word := range list {
			if text == word {
				v.SetString(text)
				return "", ""
			}
		}
		return notOneOf(text, list)
	}
	if text == "" {
		return "the value is empty", "remove the key for the default"
	}
	if len(text) > maxStringOctets || !IsPrintable(text) {
		return "the value is too long or not printable", fmt.Sprintf("want at most %d printable characters", maxStringOctets)
	}
	v.SetString(text)
	return "", ""
}

func notOneOf(text string, list []string) (message, hint string) {
	if near := Nearest(text, list); near != "" {
		return fmt.Sprintf("%q is not known", text), fmt.Sprintf("did you mean %q?", near)
	}
	return fmt.Sprintf("%q is not known", text), "want one of " + strings.Join(list, ", ")
}

// maxStringOctets bounds names and paths (PATH_MAX of Linux is 4096).
const maxStringOctets = 1024

func setNumber(n *source.Node, v reflect.Value, rules reflect.StructTag) (message, hint string) {
	low, high := numberRange(v, rules)
	hint = fmt.Sprintf("want %d to %d", low, high)
	if unit := rules.Get("unit"); unit != "" {
		hint += " " + unit
	}
	_, signed := strings.CutPrefix(n.Text, "-")
	number, err := strconv.ParseUint(n.Text, 10, 64)
	switch {
	case n.Quoted:
		return shown(n) + " is not a whole number", hint + ", without quotes"
	case signed:
		return n.Text + " is out of range", hint
	case err != nil || strconv.FormatUint(number, 10) != n.Text:
		return shown(n) + " is not a whole number", hint
	case number < low || number > high:
		return n.Text + " is out of range", hint
	case v.CanUint():
		v.SetUint(number)
	default:
		v.SetInt(int64(number))
	}
	return "", ""
}

// numberRange is what the tag says, or what the type holds.
func numberRange(v reflect.Value, rules reflect.StructTag) (low, high uint64) {
	from, to, ok := strings.Cut(rules.Get("range"), "..")
	low, _ = strconv.ParseUint(from, 10, 64)
	if high, _ = strconv.ParseUint(to, 10, 64); ok {
		return low, high
	}
	if v.CanUint() {
		return 0, math.MaxUint64 >> (64 - v.Type().Bits())
	}
	return 0, math.MaxInt64
}

// setDuration reads a number with a unit, or a bare one in the key's own unit:
// that is how the YANG modules have it.
func setDuration(n *source.Node, v reflect.Value, rules reflect.StructTag) (message, hint string) {
	from, to, _ := strings.Cut(rules.Get("range"), "..")
	low, _ := ParseDuration(from)
	high, _ := ParseDuration(to)
	hint = fmt.Sprintf("want %s to %s, as a number of %s or with a unit (ms, s, m, h)", from, to, rules.Get("unit"))
	text := n.Text
	if strings.Trim(text, "0123456789") == "" {
		text += "s"
	}
	d, ok := ParseDuration(text)
	switch {
	case !ok:
		return fmt.Sprintf("%q is not a duration", n.Text), hint
	case d < low || d > high:
		return n.Text + " is out of range", hint
	}
	v.Set(reflect.ValueOf(time.Duration(d)))
	return "", ""
}

// durationUnits are the units a duration is written in, the largest first.
var durationUnits = [...]struct {
	suffix string
	size   time.Duration
}{{"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}}

// ParseDuration reads a whole number with one of the units: no fractions and no
// sums, so that every duration has one obvious way to be written.
func ParseDuration(text string) (time.Duration, bool) {
	number := strings.TrimRight(text, "hms")
	n, err := strconv.ParseUint(number, 10, 31)
	if err != nil {
		return 0, false
	}
	for _, unit := range durationUnits {
		if text[len(number):] == unit.suffix {
			return time.Duration(n) * unit.size, true
		}
	}
	return 0, false
}

// DurationText writes a duration as parseDuration reads it.
func DurationText(d time.Duration) string {
	for _, unit := range durationUnits {
		if d != 0 && d%unit.size == 0 {
			return strconv.FormatInt(int64(d/unit.size), 10) + unit.suffix
		}
	}
	return strconv.FormatInt(int64(d/time.Second), 10) + "s"
}

// IsPrintable reports whether a text has no control characters.
func IsPrintable(s string) bool {
	for _, r := range s {
		if !strconv.IsPrint(r) {
			return false
		}
	}
	return true
}

// SplitError parts "what is wrong: hint".
func SplitError(err error) (message, hint string) {
	if err == nil {
		return "", ""
	}
	message, hint, ok := strings.Cut(err.Error(), ": want ")
	if ok {
		hint = "want " + hint
	}
	return message, hint
}
