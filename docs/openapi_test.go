// SPDX-License-Identifier: Apache-2.0

package docs

// The OpenAPI document of the control socket, made from the documents of daemon/api and the comments of their fields.
// What the server does with it is tested in daemon/apiserver.

import (
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"loci/daemon/api"
	"loci/internal/jsondoc"
	"loci/lisp"
)

//go:generate go test -run TestOpenAPIIsCurrent -update .

const openAPIFile = "control-socket.openapi.yaml"

// parameter is an argument in the query of a URL.
type parameter struct {
	name, description string
	schema            object
	required          bool
}

// operation is one path of the control socket.
type operation struct {
	method, path, summary string
	parameters            []parameter
	answer                any
	refuses               string // when it answers 422
}

var (
	eidParameter   = parameter{"eid", "an EID or EID-Prefix; entries that it covers or is covered by", object{{"type", "string"}}, false}
	afterParameter = parameter{"after", "an EID or EID-Prefix; entries of EID-Prefixes that come after it in the list", object{{"type", "string"}}, false}
	limitParameter = parameter{"limit", "the first so many entries; 0 for all", numberSchema(0, 1<<31-1), false}
	listParameters = []parameter{eidParameter, afterParameter, limitParameter}
)

const (
	wrongQuery  = "An argument of the query is wrong."
	cannotTell  = "The daemon cannot answer, for example because it is stopping."
	noDatapath  = "The data plane is not in this process."
	notReloaded = "The file has mistakes, or a change needs a restart. Nothing was changed."
)

var operations = []operation{
	{"get", api.PathStatus, "The state of the daemon as a whole.", nil, api.Status{}, cannotTell},
	{"get", api.PathHealth, "One verdict about the daemon, and the problems behind it.", nil, api.Health{}, cannotTell},
	{"get", api.PathMapCache, "Where remote EIDs are reachable (ITR), in the order of EID-Prefixes.", listParameters, []api.MapCacheEntry{}, wrongQuery},
	{"get", api.PathDatabase, "The EID-Prefixes of this site (ETR).", listParameters, []api.DatabaseEntry{}, wrongQuery},
	{"get", api.PathMapRequests, "The Map-Requests under way (ITR).", listParameters, []api.PendingMapRequest{}, wrongQuery},
	{"get", api.PathRegistrations, "What sites have registered (Map-Server).", listParameters, []api.Registration{}, wrongQuery},
	{"get", api.PathLocators, "The RLOCs of all mappings, and their states.", nil, []api.LocatorState{}, cannotTell},
	{"get", api.PathSubflows, "The subflows of Multipath TCP that are known, and their paths (ITR).", nil,
		[]api.Subflow{}, cannotTell},
	{"get", api.PathAnsweredSubflows, "The flows whose paths this router chose for ITRs that asked (ETR).", nil,
		[]api.AnsweredSubflow{}, cannotTell},
	{"get", api.PathInterfaces, "Interfaces and own RLOCs, and what the daemon waits for.", nil, api.Interfaces{}, cannotTell},
	{"get", api.PathSiblings, "The other xTRs of this site.", nil, api.Siblings{}, cannotTell},
	{"get", api.PathNAT, "How this router looks from outside, and the routers behind NATs that it forwards to.", nil, api.NAT{}, cannotTell},
	{"get", api.PathTranslations, "What LISP-NAT translates, and its sessions.", nil, api.Translations{}, cannotTell},
	{"get", api.PathDatapath, "Programs, tables and memory in the kernel.", nil, api.Datapath{}, noDatapath},
	{"get", api.PathCounters, "Totals by name; docs/counters.md describes each.", nil, api.Counters{}, cannotTell},
	{"get", api.PathExplain, "Why a destination is reached as it is.", []parameter{
		{"eid", "the destination", object{{"type", "string"}}, true},
		{"instance_id", "its Instance-ID", numberSchema(0, 1<<24-1), false},
		{"from", "source EID of a flow to it", object{{"type", "string"}}, false},
		{"protocol", "the flow's protocol, by number", numberSchema(0, 255), false},
		{"source_port", "the flow's source port", numberSchema(0, 65535), false},
		{"destination_port", "the flow's destination port", numberSchema(0, 65535), false},
	}, api.Explanation{}, wrongQuery},
	{"get", api.PathEvents, "What happens, as it happens: a JSON object a line, until the client leaves. docs/events.md describes each kind.", []parameter{
		{"kind", "events of this kind; may be given several times; without it all but RLOC-probes", object{{"type", "string"}, {"enum", api.EventKinds}}, false},
		{"eid", "events about EID-Prefixes that it covers or is covered by", object{{"type", "string"}}, false},
		{"peer", "events with this peer or RLOC: an address or a prefix", object{{"type", "string"}}, false},
		{"since", "tell the events since then first, of the last 4096 that the daemon has kept", object{{"type", "string"}, {"format", "date-time"}}, false},
		{"probes", "RLOC-probes as well", object{{"type", "boolean"}}, false},
	}, api.Event{}, wrongQuery},
	{"get", api.PathRunningConfig, "The configuration in force, its secrets masked.", []parameter{
		{"defaults", "with the keys that have default values", object{{"type", "boolean"}}, false},
	}, api.RunningConfig{}, wrongQuery},
	{"get", api.PathLogLevel, "The level of the log.", nil, api.LogLevel{}, cannotTell},
	{"post", api.PathLogLevel, "Changes the level of the log, until the daemon ends or a reload changes logging.level.", []parameter{
		{"level", "the new level, or that of the configuration", object{{"type", "string"}, {"enum", api.LogLevels}}, true},
	}, api.LogLevel{}, wrongQuery},
	{"post", api.PathReload, "Reads the configuration file again and applies the changes.", nil, api.Reload{}, notReloaded},
}

// object is a YAML mapping that keeps its order.
type object []property

type property struct {
	key   string
	value any
}

// MarshalYAML gives the library its own form.
func (o object) MarshalYAML() (any, error) {
	mapping := yaml.MapSlice{}
	for _, p := range o {
		mapping = append(mapping, yaml.MapItem{Key: p.key, Value: p.value})
	}
	return mapping, nil
}

func numberSchema(low, high int) object {
	return object{{"type", "integer"}, {"minimum", low}, {"maximum", high}}
}

func TestOpenAPIIsCurrent(t *testing.T) {
	wanted := "# Made by `make generate` from daemon/api.\n" + openAPI(t)
	if *update {
		if err := os.WriteFile(openAPIFile, []byte(wanted), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if wanted != read(t, openAPIFile) {
		t.Errorf("%s is not what daemon/api has: run `make generate`", openAPIFile)
	}
}

// TestEveryPathIsAnOperation: a path cannot be added without its operation.
func TestEveryPathIsAnOperation(t *testing.T) {
	for name, value := range sourceOf(t).paths {
		if !slices.ContainsFunc(operations, func(o operation) bool { return o.path == value }) {
			t.Errorf("api.%s is %s, which no operation has", name, value)
		}
	}
}

func openAPI(t *testing.T) string {
	t.Helper()
	s := &schemas{source: sourceOf(t), made: map[string]object{}}
	paths := object{}
	for _, o := range operations {
		if last := len(paths) - 1; last >= 0 && paths[last].key == o.path {
			paths[last].value = append(paths[last].value.(object), property{o.method, s.operation(o)})
			continue
		}
		paths = append(paths, property{o.path, object{{o.method, s.operation(o)}}})
	}
	s.of(reflect.TypeFor[api.Problem]())
	text, err := yaml.MarshalWithOptions(object{
		{"openapi", "3.1.0"},
		{"info", object{
			{"title", "Control socket of Loci"},
			{"version", "1"},
			{"description", "HTTP over a Unix socket. Every property is always there; null stands for what is not known or does not apply. " +
				"A length of time is a number of seconds. Properties may be added in later versions."},
			{"license", object{{"name", "Apache-2.0"}}},
		}},
		{"servers", []object{{{"url", "http://loci"}, {"description", "by the Unix socket, which is " + api.DefaultSocket + " by default"}}}},
		{"paths", paths},
		{"components", object{{"schemas", s.sorted()}}},
	}, yaml.IndentSequence(true))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// schemas are those of the types that documents are made of.
type schemas struct {
	source apiSource
	made   map[string]object
}

func (s *schemas) sorted() (list object) {
	var names []string
	for name := range s.made {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		list = append(list, property{name, s.made[name]})
	}
	return list
}

func (s *schemas) operation(o operation) object {
	var parameters []object
	for _, p := range o.parameters {
		parameters = append(parameters, object{{"name", p.name}, {"in", "query"}, {"required", p.required}, {"description", p.description}, {"schema", p.schema}})
	}
	media := "application/json"
	if o.path == api.PathEvents {
		media = "application/x-ndjson"
	}
	content := func(media string, schema object) object {
		return object{{"content", object{{media, object{{"schema", schema}}}}}}
	}
	problem := s.of(reflect.TypeFor[api.Problem]())
	statuses := object{{"200", append(object{{"description", "The answer."}}, content(media, s.of(reflect.TypeOf(o.answer)))...)}}
	if o.refuses != "" {
		statuses = append(statuses, property{"422", append(object{{"description", o.refuses}}, content("application/json", problem)...)})
	}
	statuses = append(statuses, property{"503", append(object{{"description", "The daemon has too many clients."}}, content("application/json", problem)...)})
	described := object{{"summary", o.summary}}
	if parameters != nil {
		described = append(described, property{"parameters", parameters})
	}
	return append(described, property{"responses", statuses})
}

// texts are types that are a text in JSON.
var texts = map[reflect.Type]struct{ name, description string }{
	reflect.TypeFor[lisp.Prefix]():  {"EIDPrefix", "An EID-Prefix: 10.1.0.0/16, 2001:db8::/32, 02:00:00:00:00:00/24 or a name in quotes; with its Instance-ID in front, where that is not 0: [7]10.1.0.0/16."},
	reflect.TypeFor[lisp.EID]():     {"EID", "An EID: an IPv4, IPv6 or MAC address, or a name in quotes."},
	reflect.TypeFor[lisp.RLOC]():    {"RLOC", "An RLOC: an IPv4 or IPv6 address, with a port where that is not the usual one."},
	reflect.TypeFor[lisp.Action]():  {"Action", "What is done with packets of a negative mapping (RFC 9301 s.5.4)."},
	reflect.TypeFor[netip.Addr]():   {"Address", "An IPv4 or IPv6 address."},
	reflect.TypeFor[netip.Prefix](): {"Prefix", "An IPv4 or IPv6 prefix."},
}

func (s *schemas) of(t reflect.Type) object {
	if text, ok := texts[t]; ok {
		return s.named(text.name, object{{"type", "string"}, {"description", text.description}})
	}
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{{"type", "string"}, {"format", "date-time"}}
	case t == reflect.TypeFor[jsondoc.Seconds]():
		return s.named("Seconds", object{{"type", "number"}, {"description", "A length of time in seconds."}})
	}
	switch t.Kind() {
	case reflect.Pointer:
		return nullable(s.of(t.Elem()))
	case reflect.Slice:
		return object{{"type", "array"}, {"items", s.of(t.Elem())}}
	case reflect.Map:
		return object{{"type", "object"}, {"additionalProperties", s.of(t.Elem())}}
	case reflect.Interface:
		return object{{"description", "anything"}}
	case reflect.Struct:
		return s.structure(t)
	case reflect.Bool:
		return object{{"type", "boolean"}}
	case reflect.Float64:
		return object{{"type", "number"}}
	case reflect.String:
		if words := s.source.words[t.Name()]; len(words) > 0 {
			return s.named(t.Name(), object{{"type", "string"}, {"description", s.source.comments[t.Name()]}, {"enum", words}})
		}
		return object{{"type", "string"}}
	}
	if t.Kind() >= reflect.Uint && t.Kind() <= reflect.Uint64 {
		return object{{"type", "integer"}, {"minimum", 0}}
	}
	return object{{"type", "integer"}}
}

func nullable(schema object) object {
	if schema[0].key == "$ref" {
		return object{{"anyOf", []object{schema, {{"type", "null"}}}}}
	}
	return append(object{{"type", []any{schema[0].value, "null"}}}, schema[1:]...)
}

// named keeps a schema by its name, and refers to it.
func (s *schemas) named(name string, schema object) object {
	s.made[name] = schema
	return object{{"$ref", "#/components/schemas/" + name}}
}

func (s *schemas) structure(t reflect.Type) object {
	name := t.Name()
	reference := object{{"$ref", "#/components/schemas/" + name}}
	if s.made[name] != nil {
		return reference
	}
	s.made[name] = object{} // a type may hold itself
	properties, required := s.properties(t)
	s.named(name, object{
		{"type", "object"}, {"description", s.source.comments[name]}, {"required", required}, {"properties", properties},
	})
	return reference
}

func (s *schemas) properties(t reflect.Type) (properties object, required []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		key := f.Tag.Get("json")
		if f.Anonymous && key == "" {
			inner, names := s.properties(f.Type)
			properties, required = append(properties, inner...), append(required, names...)
			continue
		}
		schema := s.of(f.Type)
		if isText := f.Type.Kind() == reflect.String && schema[0].key != "$ref"; isText || f.Type == reflect.TypeFor[lisp.RLOC]() {
			schema = nullable(schema) // an empty text is not known, or does not apply
		}
		if text := s.source.comments[t.Name()+"."+f.Name]; text != "" {
			schema = append(slices.Clone(schema), property{"description", text})
		}
		properties, required = append(properties, property{key, schema}), append(required, key)
	}
	return properties, required
}

// apiSource is what the source of daemon/api says beside types.
type apiSource struct {
	comments map[string]string   // of types and, behind a dot, their fields
	words    map[string][]string // the constants of types that are texts
	paths    map[string]string   // of the control socket, by the constants' names
}

func sourceOf(t *testing.T) apiSource {
	t.Helper()
	files, err := filepath.Glob("../daemon/api/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	s := apiSource{comments: map[string]string{}, words: map[string][]string{}, paths: map[string]string{}}
	for _, file := range files {
		syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range syntax.Decls {
			if general, ok := declaration.(*ast.GenDecl); ok {
				s.add(general)
			}
		}
	}
	return s
}

func (s *apiSource) add(declaration *ast.GenDecl) {
	for _, spec := range declaration.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			s.comments[spec.Name.Name] = sentence(declaration.Doc, spec.Comment)
			if structure, ok := spec.Type.(*ast.StructType); ok {
				for _, f := range structure.Fields.List {
					for _, name := range f.Names {
						s.comments[spec.Name.Name+"."+name.Name] = sentence(f.Doc, f.Comment)
					}
				}
			}
		case *ast.ValueSpec:
			literal, isText := valueOf(spec)
			kind, hasType := spec.Type.(*ast.Ident)
			switch {
			case !isText:
			case hasType:
				s.words[kind.Name] = append(s.words[kind.Name], literal)
			case strings.HasPrefix(spec.Names[0].Name, "Path"):
				s.paths[spec.Names[0].Name] = literal
			}
		}
	}
}

// valueOf is the text that a constant is.
func valueOf(spec *ast.ValueSpec) (string, bool) {
	if len(spec.Values) != 1 {
		return "", false
	}
	literal, ok := spec.Values[0].(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(literal.Value)
	return text, err == nil
}

// sentence is a comment on one line.
func sentence(groups ...*ast.CommentGroup) string {
	var parts []string
	for _, g := range groups {
		if g == nil {
			continue
		}
		var p comment.Parser
		parts = append(parts, strings.Join(strings.Fields(string(new(comment.Printer).Text(p.Parse(g.Text())))), " "))
	}
	return strings.Join(parts, " ")
}
