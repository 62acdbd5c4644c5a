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

// Each threat has a test, and each test that the page names is there.
func TestThreatsHaveTests(t *testing.T) {
	tests := map[string]bool{}
	forEachTest(t, func(name string, _ *ast.FuncDecl) { tests[name] = true })
	rows := 0
	for line := range strings.Lines(read(t, "security.md")) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| RFC") {
			continue
		}
		rows++
		named := namedTest.FindAllStringSubmatch(line, -1)
		if len(named) == 0 {
			t.Errorf("no test in %s", line)
		}
		for _, match := range named {
			if !tests[match[1]] {
				t.Errorf("%s is not there: %s", match[1], line)
			}
		}
	}
	if rows == 0 {
		t.Error("the table is gone")
	}
}
