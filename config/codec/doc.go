// SPDX-License-Identifier: Apache-2.0

// Package codec reads a tree of package source into structs and writes structs as a tree, as
// YAML and as JSON. The struct tags of the model say what is allowed; decode.go lists them.
//
// Decode tells every mistake at its place in the file: an unknown key with the key that was
// probably meant, a value of another type or out of range, a section where a list belongs.
// A type that may be written in a short form has a method DecodeNode, and EncodeNode for the
// other direction.
//
// What tags do not say of a model stands in its Schema. The package knows addresses,
// prefixes, durations and numbers, but no key: those are the model's, in package config.
package codec
