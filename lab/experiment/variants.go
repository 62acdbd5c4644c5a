// SPDX-License-Identifier: Apache-2.0

package experiment

// Variants: dimensions, options and values.
//
//	dimensions:
//	  family:
//	    ipv4: {host-a: 10.1.0.2, ...}
//	    ipv6: {host-a: "2001:db8:a::2", ...}
//	  hook:
//	    tc: {hook: tc}
//	    xdp: {hook: xdp}
//
// has four variants: ipv4-tc, ipv4-xdp, ipv6-tc and ipv6-xdp.

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// variant is one option of each dimension.
type variant struct {
	Name string
	file *File
}

// readVariants reads a file once for each of its variants.
func readVariants(text []byte) ([]variant, error) {
	var outline struct {
		Dimensions yaml.MapSlice `yaml:"dimensions"`
	}
	if err := yaml.Unmarshal(text, &outline); err != nil {
		return nil, err
	}
	all := []variantValues{{values: map[string]string{}}}
	for _, dimension := range outline.Dimensions {
		opts, ok := dimension.Value.(map[string]any)
		if !ok || len(opts) == 0 {
			return nil, fmt.Errorf("dimension %v: want options, each with its values", dimension.Key)
		}
		var err error
		if all, err = multiply(all, opts); err != nil {
			return nil, fmt.Errorf("dimension %v: %w", dimension.Key, err)
		}
	}
	var variants []variant
	for _, v := range all {
		filled, err := v.fill(string(text))
		if err != nil {
			return nil, err
		}
		f, err := Parse([]byte(filled))
		if err != nil {
			return nil, fmt.Errorf("variant %s: %w", v.name(), err)
		}
		variants = append(variants, variant{v.name(), f})
	}
	return variants, nil
}

type variantValues struct {
	options []string // of the dimensions, in order
	values  map[string]string
}

func (v variantValues) name() string { return strings.Join(v.options, "-") }

// multiply extends each variant by each option of a further dimension.
func multiply(variants []variantValues, opts map[string]any) ([]variantValues, error) {
	var all []variantValues
	for _, v := range variants {
		for _, name := range sortedKeys(opts) {
			values, ok := opts[name].(map[string]any)
			if !ok {
				return nil, fmt.Errorf("option %s: want names and values", name)
			}
			next, err := v.with(name, values)
			if err != nil {
				return nil, err
			}
			all = append(all, next)
		}
	}
	return all, nil
}

// with adds an option.
func (v variantValues) with(name string, values map[string]any) (variantValues, error) {
	next := variantValues{append(slices.Clone(v.options), name), maps.Clone(v.values)}
	for key, value := range values {
		if _, twice := next.values[key]; twice {
			return next, fmt.Errorf("option %s: %s has a value in two dimensions", name, key)
		}
		next.values[key] = fmt.Sprint(value)
	}
	return next, nil
}

func sortedKeys(m map[string]any) []string {
	return slices.Sorted(maps.Keys(m))
}

var reference = regexp.MustCompile(`\$\{([^}]*)\}`)

// fill replaces ${name} by its value.
func (v variantValues) fill(text string) (string, error) {
	var errs []error
	filled := reference.ReplaceAllStringFunc(text, func(found string) string {
		name := found[2 : len(found)-1]
		value, ok := v.values[name]
		if !ok {
			errs = append(errs, fmt.Errorf("variant %s: ${%s} has no value", v.name(), name))
		}
		return value
	})
	return filled, errors.Join(errs...)
}
