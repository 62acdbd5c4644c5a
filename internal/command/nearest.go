// SPDX-License-Identifier: Apache-2.0

// What was probably meant by a mistyped word.

package command

import (
	"strings"

	"loci/config/codec"
)

// Nearest is the word of a list that a mistyped one is closest to, "" when none is close. A word that begins with it is.
func Nearest(word string, list []string) string {
	if near := codec.Nearest(word, list); near != "" || len(word) < 3 {
		return near
	}
	for _, candidate := range list {
		if strings.HasPrefix(candidate, word) {
			return candidate
		}
	}
	return ""
}
