// SPDX-License-Identifier: Apache-2.0

// Package kerneltest is what the tests of the kernel data plane's packages share. No other
// code imports it.
package kerneltest

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// ReadABI returns the text of all headers that C and Go share.
func ReadABI(t testing.TB) string {
	t.Helper()
	directory := "bpf"
	for up := 0; ; up++ {
		if _, err := os.Stat(filepath.Join(directory, "abi.h")); err == nil {
			break
		}
		if up == 8 {
			t.Fatal("bpf/abi.h is not in any directory above")
		}
		directory = filepath.Join("..", directory)
	}
	headers, err := filepath.Glob(filepath.Join(directory, "abi*.h"))
	if err != nil {
		t.Fatal(err)
	}
	all := ""
	for _, name := range headers {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all += string(text)
	}
	return all
}

// ExpectConstants compares numbers with the constants of bpf/abi.h that have these names.
func ExpectConstants(t *testing.T, want map[string]uint64) {
	t.Helper()
	text := ReadABI(t)
	for name, want := range want {
		found := regexp.MustCompile(`#define ` + name + ` (\S+?)U?L*\s`).FindStringSubmatch(text)
		if found == nil {
			t.Errorf("%s is not in abi.h", name)
			continue
		}
		if got, err := strconv.ParseUint(found[1], 0, 64); err != nil || got != want {
			t.Errorf("%s is %s, want %#x", name, found[1], want)
		}
	}
}
