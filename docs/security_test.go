// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

// namedTest is a test as documents name it: `control.TestReplay`.
var namedTest = regexp.MustCompile("`([a-z/]+\\.(?:Test|Fuzz)[A-Za-z0-9_]+)`")

// leastThreats is how few mean that the page was cut off.
const leastThreats = 41

// Each threat has a test, and each test that the page names is there.
func TestThreatsHaveTests(t *testing.T) {
	tests := map[string]bool{}
	forEachTest(t, func(name string, _ *ast.FuncDecl) { tests[name] = true })
	_, page, _ := strings.Cut(read(t, "security.md"), "\n## Threats of RFC 7835\n")
	threats := strings.Split(page, "\n- **")[1:]
	for _, threat := range threats {
		threat, _, _ = strings.Cut(threat, "\n\n")
		named := namedTest.FindAllStringSubmatch(threat, -1)
		if len(named) == 0 {
			t.Errorf("no test in %s", threat)
		}
		for _, match := range named {
			if !tests[match[1]] {
				t.Errorf("%s is not there: %s", match[1], threat)
			}
		}
	}
	if len(threats) < leastThreats {
		t.Errorf("%d threats: the list is cut off", len(threats))
	}
}
