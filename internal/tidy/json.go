// SPDX-License-Identifier: Apache-2.0

// One spelling for what programs read: the JSON that the control socket serves and that --json prints, and the keys of the log
// (docs/decisions/0024-json.md). What others define, the interface of lispers.net, keeps their spelling.

package tidy

import (
	"go/ast"
	"go/token"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// foreignJSON are directories with formats of others.
var foreignJSON = []string{"dataplane/lispers"}

// ownJSON are places that write JSON for themselves, or for a tool, with encoding/json.
var ownJSON = []string{"lab/directory.go", "sim/mutate/main.go"}

var (
	jsonKey = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	// otherUnit is a unit of time other than the one that all documents have, or that one alone, which does not say of what.
	otherUnit = regexp.MustCompile(`(^|_)(ms|us|ns|milliseconds|microseconds|nanoseconds|minutes|hours|days)$|^seconds$`)
)

func checkJSON(t *tree) []finding {
	var all []finding
	for _, f := range t.source() {
		if slices.ContainsFunc(foreignJSON, func(d string) bool { return inside(f.directory(), d) }) {
			continue
		}
		ast.Inspect(f.syntax, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.StructType:
				for _, field := range node.Fields.List {
					all = append(all, t.jsonField(f, field)...)
				}
			case *ast.FuncDecl:
				return node.Name.Name != "MarshalJSON"
			case *ast.CallExpr:
				all = append(all, t.jsonCall(f, node)...)
			}
			return true
		})
	}
	return all
}

// jsonField looks at the tag of a field.
func (t *tree) jsonField(f *file, field *ast.Field) []finding {
	if field.Tag == nil {
		return nil
	}
	tags, _ := strconv.Unquote(field.Tag.Value)
	tag, isJSON := reflect.StructTag(tags).Lookup("json")
	key, options, _ := strings.Cut(tag, ",")
	if !isJSON || key == "-" {
		return nil
	}
	var all []finding
	kind := strings.TrimPrefix(typeText(field.Type), "*")
	switch {
	case !jsonKey.MatchString(key):
		all = append(all, t.at(f, field, "JSON key %q: want words joined by underscores", key))
	case otherUnit.MatchString(key), kind == "jsondoc.Seconds" && !strings.HasSuffix(key, "_seconds"):
		all = append(all, t.at(f, field, "JSON key %q: a length of time is a number of seconds, and its key says so: …_seconds", key))
	}
	if kind == "time.Duration" {
		all = append(all, t.at(f, field, "JSON key %q: want jsondoc.Seconds in place of time.Duration", key))
	}
	if options != "" {
		all = append(all, t.at(f, field, "JSON key %q: %s leaves it out: want it always there, null where it is not known", key, options))
	}
	return all
}

// typeText is a type by its name; "" for types without one.
func typeText(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return "*" + typeText(e.X)
	case *ast.SelectorExpr:
		return typeText(e.X) + "." + e.Sel.Name
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// logMethods take attributes behind a message, slogAttributes make one.
var (
	logMethods     = []string{"Debug", "Info", "Warn", "Error"}
	slogAttributes = []string{"slog.String", "slog.Int", "slog.Int64", "slog.Uint64", "slog.Bool", "slog.Any", "slog.Time", "slog.Duration", "slog.Float64"}
	jsonWriters    = []string{"json.NewEncoder", "json.Marshal", "json.MarshalIndent"}
	jsonPrinters   = []string{"cmd", "daemon", "lab", "mapsock", "packettrace", "sim", "internal/command"}
)

// jsonCall looks at who writes JSON, and at the keys of log lines.
func (t *tree) jsonCall(f *file, call *ast.CallExpr) (all []finding) {
	name := typeText(call.Fun)
	prints := slices.ContainsFunc(jsonPrinters, func(d string) bool { return inside(f.directory(), d) })
	if slices.Contains(jsonWriters, name) && prints && !slices.Contains(ownJSON, f.path) {
		all = append(all, t.at(f, call, "%s: want package jsondoc, which leaves nothing out", name))
	}
	keys := call.Args
	selector, isMethod := call.Fun.(*ast.SelectorExpr)
	switch {
	case slices.Contains(slogAttributes, name):
	case isMethod && slices.Contains(logMethods, selector.Sel.Name) && len(call.Args) > 1:
		keys = keys[1:]
	default:
		return all
	}
	for i := 0; i < len(keys); i += 2 {
		if literal, ok := keys[i].(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if key, _ := strconv.Unquote(literal.Value); !jsonKey.MatchString(key) {
				all = append(all, t.at(f, literal, "log key %q: want words joined by underscores", key))
			}
		}
		if slices.Contains(slogAttributes, name) {
			break // one key, then its value
		}
	}
	return all
}
