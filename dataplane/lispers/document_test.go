// SPDX-License-Identifier: Apache-2.0

package lispers

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// TestDocumentNamesEverything: each message, field, counter and lack stands in the
// operator's page.
func TestDocumentNamesEverything(t *testing.T) {
	raw, err := os.ReadFile("../../docs/lispers-interface.md")
	if err != nil {
		t.Fatal(err)
	}
	document := string(raw)
	demand := func(what, text string) {
		t.Helper()
		if !strings.Contains(document, text) {
			t.Errorf("%s %s is not documented", what, text)
		}
	}
	for kind := range decoders {
		demand("message", kind)
	}
	for _, word := range decapWords {
		demand("field", "`"+word+"`")
	}
	for _, name := range counterNames {
		demand("counter", "| `"+name+"` |")
	}
	for _, lack := range Lacks() {
		name, _, _ := strings.Cut(string(lack), ":")
		demand("lack", "- **"+name+"**:")
	}
	for _, object := range []any{
		mapCacheJSON{}, rlocJSON{}, keyJSON{}, listJSON[int]{}, databaseJSON{}, interfaceJSON{}, decapKeysJSON{}, portJSON{}, parametersJSON{},
		discoveryJSON{}, statisticsEntryJSON{}, rlocUseJSON{}, useJSON{},
	} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(object)) {
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
				demand("field", "`"+name+"`")
			}
		}
	}
}
