// SPDX-License-Identifier: Apache-2.0

package config

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
)

func setBool(n *node, v reflect.Value) (message, hint string) {
	if n.quoted || n.text != "true" && n.text != "false" {
		return fmt.Sprintf("%s is neither true nor false", shown(n)), "write true or false, without quotes"
	}
	v.SetBool(n.text == "true")
	return "", ""
}

// shown is a word as it stands in the file.
func shown(n *node) string {
	if n.quoted {
		return strconv.Quote(n.text) + " in quotes"
	}
	return strconv.Quote(n.text)
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
	if len(text) > maxStringOctets || !isPrintable(text) {
		return "the value is too long or not printable", fmt.Sprintf("want at most %d printable characters", maxStringOctets)
	}
	v.SetString(text)
	return "", ""
}

func notOneOf(text string, list []string) (message, hint string) {
	if near := nearest(text, list); near != "" {
		return fmt.Sprintf("%q is not known", text), fmt.Sprintf("did you mean %q?", near)
	}
	return fmt.Sprintf("%q is not known", text), "want one of " + strings.Join(list, ", ")
}

// maxStringOctets bounds names and paths (PATH_MAX of Linux is 4096).
const maxStringOctets = 1024

func setNumber(n *node, v reflect.Value, rules reflect.StructTag) (message, hint string) {
	low, high := numberRange(v, rules)
	hint = fmt.Sprintf("want %d to %d", low, high)
	if unit := rules.Get("unit"); unit != "" {
		hint += " " + unit
	}
	_, signed := strings.CutPrefix(n.text, "-")
	number, err := strconv.ParseUint(n.text, 10, 64)
	switch {
	case n.quoted:
		return shown(n) + " is not a whole number", hint + ", without quotes"
	case signed:
		return n.text + " is out of range", hint
	case err != nil || strconv.FormatUint(number, 10) != n.text:
		return shown(n) + " is not a whole number", hint
	case number < low || number > high:
		return n.text + " is out of range", hint
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
func setDuration(n *node, v reflect.Value, rules reflect.StructTag) (message, hint string) {
	from, to, _ := strings.Cut(rules.Get("range"), "..")
	low, _ := parseDuration(from)
	high, _ := parseDuration(to)
	hint = fmt.Sprintf("want %s to %s, as a number of %s or with a unit (ms, s, m, h)", from, to, rules.Get("unit"))
	text := n.text
	if strings.Trim(text, "0123456789") == "" {
		text += "s"
	}
	d, ok := parseDuration(text)
	switch {
	case !ok:
		return fmt.Sprintf("%q is not a duration", n.text), hint
	case d < low || d > high:
		return n.text + " is out of range", hint
	}
	v.Set(reflect.ValueOf(time.Duration(d)))
	return "", ""
}
