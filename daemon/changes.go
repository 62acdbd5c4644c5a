// SPDX-License-Identifier: Apache-2.0

package daemon

// What the log and the events tell of a reload: every change of a setting, and of a list with thousands of items the first few
// changes and how many more there are.

import (
	"fmt"
	"log/slog"
	"strings"

	"loci/config"
)

const (
	// maxChangeLines bounds the changes of one list that are told each, and the lists of which that is done.
	maxChangeLines = 10
	maxChangeLists = 20
	// maxWarningLines bounds the warnings about a configuration that are logged.
	maxWarningLines = 50
)

// listChanges are the changes of one list beyond those that are told each.
type listChanges struct {
	told, added, removed, changed int
}

func (l *listChanges) count(c config.Change) {
	switch {
	case c.Old == "":
		l.added++
	case c.New == "":
		l.removed++
	default:
		l.changed++
	}
}

func (l *listChanges) left() int { return l.added + l.removed + l.changed }

// linesOf puts changes into a bounded number of lines.
func linesOf(changes []config.Change) (lines []string) {
	lists := map[string]*listChanges{}
	var order []string
	others := 0
	for _, c := range changes {
		name := listOf(c.Path)
		l := lists[name]
		switch {
		case l == nil && len(lists) == maxChangeLists:
			others++
			continue
		case l == nil:
			l = &listChanges{}
			lists[name], order = l, append(order, name)
		}
		if l.told == maxChangeLines {
			l.count(c)
			continue
		}
		l.told++
		lines = append(lines, c.String())
	}
	for _, name := range order {
		if l := lists[name]; l.left() > 0 {
			lines = append(lines, fmt.Sprintf("%s: %d more (%d added, %d removed, %d changed)", name, l.left(), l.added, l.removed, l.changed))
		}
	}
	if others > 0 {
		lines = append(lines, fmt.Sprintf("other settings: %d more", others))
	}
	return lines
}

// listOf is the list that a changed item belongs to; all settings outside lists count as one list.
func listOf(path string) string {
	name, _, listed := strings.Cut(path, "[")
	if section, _, _ := strings.Cut(path, "."); section == "locator-sets" {
		return section
	}
	if !listed {
		return "settings"
	}
	return name
}

// warn logs the warnings about a configuration that is applied.
func warn(log *slog.Logger, warnings []string) {
	for _, w := range warnings[:min(len(warnings), maxWarningLines)] {
		log.Warn(w)
	}
	if left := len(warnings) - maxWarningLines; left > 0 {
		log.Warn(fmt.Sprintf("%d more warnings about the configuration: `loci show status` lists all", left))
	}
}
