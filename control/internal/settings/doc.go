// SPDX-License-Identifier: Apache-2.0

// Package settings is the configuration of a Node as one value: defaults, limits, policies, and the
// checks for what would break the protocol. It reads no files and no text: package config does.
package settings
