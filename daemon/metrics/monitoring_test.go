// SPDX-License-Identifier: Apache-2.0

//go:build !nometrics

package metrics

// The alert rules and the dashboard of monitoring/ name metrics that exist.

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"loci/config"
)

const monitoring = "../../monitoring"

func TestMonitoringNamesMetrics(t *testing.T) {
	_, address := serve(t, counted{all: countersOf(t)}, config.Metrics{Listen: listenAt("127.0.0.1:0")})
	text, err := get(t, address)
	if err != nil {
		t.Fatal(err)
	}
	var known []string
	for _, m := range regexp.MustCompile(`(?m)^([a-z_]+)[ {]`).FindAllStringSubmatch(text, -1) {
		known = append(known, m[1])
	}
	for _, file := range []string{"alerts.yaml", "dashboard.json"} {
		content, err := os.ReadFile(filepath.Join(monitoring, file))
		if err != nil {
			t.Fatal(err)
		}
		names := regexp.MustCompile(`\b(loci|process)_[a-z_]+`).FindAllString(string(content), -1)
		if len(names) < 5 {
			t.Errorf("%s names only %q", file, names)
		}
		for _, name := range names {
			if !slices.Contains(known, name) {
				t.Errorf("%s: there is no metric %s", file, name)
			}
		}
	}
}

func TestDashboardIsGrafanas(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(monitoring, "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		UID    string
		Panels []struct {
			ID      int
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(content, &dashboard); err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, p := range dashboard.Panels {
		if p.Title == "" || len(p.Targets) == 0 || seen[p.ID] {
			t.Errorf("panel %+v", p)
		}
		seen[p.ID] = true
		for _, target := range p.Targets {
			if strings.Count(target.Expr, "(") != strings.Count(target.Expr, ")") || !strings.Contains(target.Expr, "$instance") {
				t.Errorf("panel %s: %s", p.Title, target.Expr)
			}
		}
	}
	if dashboard.UID == "" || len(seen) < 10 {
		t.Errorf("a dashboard %q of %d panels", dashboard.UID, len(seen))
	}
}

func TestPromtoolAcceptsTheAlerts(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatal("promtool is not there: .ci/tools test installs it")
	}
	if err != nil {
		t.Skip("promtool is not installed (package prometheus)")
	}
	if out, err := exec.Command(promtool, "check", "rules", filepath.Join(monitoring, "alerts.yaml")).CombinedOutput(); err != nil {
		t.Errorf("%s", out)
	}
	_, address := serve(t, counted{all: countersOf(t)}, config.Metrics{Listen: listenAt("127.0.0.1:0")})
	text, err := get(t, address)
	if err != nil {
		t.Fatal(err)
	}
	check := exec.Command(promtool, "check", "metrics")
	check.Stdin = strings.NewReader(text)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %s", out)
	}
}
