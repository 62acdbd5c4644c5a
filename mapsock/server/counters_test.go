// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"os"
	"testing"
)

func TestDocumentHasEveryCounter(t *testing.T) {
	content, err := os.ReadFile("../../docs/mapsock.md")
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, Options{})
	for name := range s.server.Counters() {
		if !bytes.Contains(content, []byte("| `"+name+"` |")) {
			t.Errorf("%s is not in the document", name)
		}
	}
}
