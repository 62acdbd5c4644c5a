// SPDX-License-Identifier: Apache-2.0

// The words that the field has others for. Names that users and programmers meet (exported symbols, files, commands, JSON and
// configuration keys, counters) and all text are held against two lists; docs/vocabulary.md says which words Loci has of its
// own.

package tidy

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
)

// privateWords are not in names: as words of camel or snake case, in order.
var privateWords = []struct {
	words  []string
	better string
}{
	{[]string{"front"}, "outer-header template"},
	{[]string{"scattered"}, "locator-set cache"},
	{[]string{"stranger"}, "locator-set cache; attacker"},
	{[]string{"strangers"}, "locator-set cache; attackers"},
	{[]string{"kept", "decision"}, "flow-cache entry"},
	{[]string{"one", "way"}, "single next hop"},
	{[]string{"ways"}, "next hops"},
	{[]string{"wide", "root"}, "DIR-24-8"},
	{[]string{"comparison", "cell"}, "path-compressed node"},
	{[]string{"pending", "counts"}, "batched counters"},
	{[]string{"super", "packet"}, "GSO packet"},
	{[]string{"superpacket"}, "GSO packet"},
	{[]string{"waiting", "room"}, "pending-packet queue"},
	{[]string{"unread"}, "backlog"},
	{[]string{"foresight"}, "prefetch"},
	{[]string{"turn"}, "event-loop iteration"},
	{[]string{"turns"}, "event-loop iterations"},
	{[]string{"stint"}, "polling interval"},
	{[]string{"vigil"}, "polling interval"},
	{[]string{"heed"}, "say what it does"},
	{[]string{"detour"}, "sibling path"},
	{[]string{"nobody"}, "name the actor"},
	{[]string{"whoever"}, "name the actor"},
}

// privatePhrases are in no text, in either case.
var privatePhrases = []string{
	"kept decision", "mark of one way", "wide root", "comparison cell", "pending counts", "block of entries",
	"unfinished checksum", "super-packet", "superpacket", "waiting room", "foresight", "vigil", "detour",
	"stranger", "turn of the loop", "turns of the loop", "what differs is put in force", "put in force", "nobody", "whoever",
	"for want of", "forward-natively",
}

var privatePhrase = regexp.MustCompile(`(?i)\b(` + strings.Join(privatePhrases, "|") + `)`)

// foreignNames are of libraries that Loci uses.
var foreignNames = []string{"TruncateFront"}

// otherMeanings are phrases that mean something else in one directory.
var otherMeanings = map[string]string{
	"lab/demo": "nobody", // the Unix user
}

// checkWords looks at every text file. This package names the words, and a decision record may quote what it replaces.
func checkWords(t *tree) []finding {
	var all []finding
	for _, f := range t.files {
		if !f.isText() || excusedFromWords(f.path) {
			continue
		}
		if word := privateWord(strings.TrimSuffix(path.Base(f.path), path.Ext(f.path))); word != "" {
			all = append(all, finding{path: f.path, message: "the file's name has " + word})
		}
		all = append(all, t.nameWords(f)...)
		f.eachLine(func(number int, line string) {
			for _, phrase := range privatePhrase.FindAllString(line, -1) {
				if phrase != otherMeanings[path.Dir(f.path)] {
					all = append(all, finding{f.path, number, fmt.Sprintf("%q: write the word of the field, or name the actor", phrase)})
				}
			}
		})
	}
	return all
}

func excusedFromWords(name string) bool {
	if inside(path.Dir(name), "internal/tidy") || strings.Contains(name, "testdata/") || strings.HasPrefix(name, "LICENSE") {
		return true
	}
	return !slices.Contains([]string{".go", ".c", ".h", ".md", ".yaml"}, path.Ext(name))
}

// nameWords looks at exported symbols and at the keys in struct tags and string literals that are names: JSON and
// configuration keys, counters and commands.
func (t *tree) nameWords(f *file) []finding {
	if f.syntax == nil || ast.IsGenerated(f.syntax) || f.isTest() {
		return nil
	}
	var all []finding
	ast.Inspect(f.syntax, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.Ident:
			if word := privateWord(node.Name); word != "" && node.IsExported() && !slices.Contains(foreignNames, node.Name) {
				all = append(all, t.at(f, node, "%s has %s", node.Name, word))
			}
		case *ast.BasicLit:
			for _, name := range namesIn(node.Value) {
				if word := privateWord(name); word != "" {
					all = append(all, t.at(f, node, "the name %q has %s", name, word))
				}
			}
		}
		return true
	})
	return all
}

var (
	wholeName = regexp.MustCompile("^[\"`]([a-z]+(?:[-_][a-z0-9]+)+)[\"`]$")
	tagName   = regexp.MustCompile(`(?:json|key):"([a-z0-9_-]+)`)
)

// namesIn are the names in a literal: of the keys in a struct tag, or of a counter, a command or a key where it is nothing else.
func namesIn(literal string) []string {
	var names []string
	for _, match := range tagName.FindAllStringSubmatch(literal, -1) {
		names = append(names, match[1])
	}
	if match := wholeName.FindStringSubmatch(literal); match != nil {
		names = append(names, match[1])
	}
	return names
}

// privateWord says which word of a name, in camel, snake or kebab case, has a better one.
func privateWord(name string) string {
	var words []string
	for _, word := range wordBoundary.FindAllString(name, -1) {
		words = append(words, strings.ToLower(word))
	}
	for _, private := range privateWords {
		for i := range words {
			if len(words) >= i+len(private.words) && slices.Equal(words[i:i+len(private.words)], private.words) {
				return fmt.Sprintf("%q: want %s", strings.Join(private.words, " "), private.better)
			}
		}
	}
	return ""
}
