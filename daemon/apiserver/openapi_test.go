// SPDX-License-Identifier: Apache-2.0

package apiserver

// The OpenAPI document of the control socket against the server: each path, method and status, and each property of what it
// answers, both ways.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"loci/daemon/api"
	"loci/daemon/events"
	"loci/lisp"
)

const openAPIFile = "../../docs/control-socket.openapi.yaml"

// schema is a part of JSON Schema, as much as the document uses.
type schema struct {
	Ref        string            `yaml:"$ref"`
	Type       any               `yaml:"type"` // a word or a list of words
	Format     string            `yaml:"format"`
	Enum       []string          `yaml:"enum"`
	Minimum    *float64          `yaml:"minimum"`
	AnyOf      []schema          `yaml:"anyOf"`
	Items      *schema           `yaml:"items"`
	Additional *schema           `yaml:"additionalProperties"`
	Required   []string          `yaml:"required"`
	Properties map[string]schema `yaml:"properties"`
}

type described struct {
	Parameters []struct {
		Name     string `yaml:"name"`
		Required bool   `yaml:"required"`
		Schema   schema `yaml:"schema"`
	} `yaml:"parameters"`
	Responses map[string]struct {
		Content map[string]struct {
			Schema schema `yaml:"schema"`
		} `yaml:"content"`
	} `yaml:"responses"`
}

type openAPI struct {
	Paths      map[string]map[string]described `yaml:"paths"`
	Components struct {
		Schemas map[string]schema `yaml:"schemas"`
	} `yaml:"components"`
	used map[string]bool // schemas and their properties that an answer had
}

func readOpenAPI(t *testing.T) *openAPI {
	t.Helper()
	text, err := os.ReadFile(openAPIFile)
	if err != nil {
		t.Fatal(err)
	}
	d := &openAPI{used: map[string]bool{}}
	if err := yaml.Unmarshal(text, d); err != nil || len(d.Paths) == 0 {
		t.Fatalf("%d paths, %v", len(d.Paths), err)
	}
	return d
}

// check holds a value against a schema: what the schema has not, and what the value lacks, is told.
func (d *openAPI) check(s schema, value any, at string) error {
	switch {
	case s.Ref != "":
		name := strings.TrimPrefix(s.Ref, "#/components/schemas/")
		target, known := d.Components.Schemas[name]
		if !known {
			return fmt.Errorf("%s: no schema %s", at, name)
		}
		d.used[name] = true
		return d.check(target, value, name)
	case s.AnyOf != nil:
		var all error
		for _, one := range s.AnyOf {
			err := d.check(one, value, at)
			if err == nil {
				return nil
			}
			all = errors.Join(all, err)
		}
		return all
	}
	if s.Type == nil { // anything
		return nil
	}
	switch value := value.(type) {
	case map[string]any:
		return d.checkObject(s, value, at)
	case []any:
		if s.Items == nil {
			return fmt.Errorf("%s: a list is not described", at)
		}
		var all error
		for _, item := range value {
			all = errors.Join(all, d.check(*s.Items, item, at+"[]"))
		}
		return all
	}
	return checkScalar(s, value, at)
}

func (d *openAPI) checkObject(s schema, value map[string]any, at string) (all error) {
	if !slices.Contains(typesOf(s), "object") {
		return fmt.Errorf("%s: an object is not described", at)
	}
	for key, v := range value {
		property, known := s.Properties[key]
		switch {
		case known:
			d.used[at+"."+key] = true
			all = errors.Join(all, d.check(property, v, at+"."+key))
		case s.Additional != nil:
			all = errors.Join(all, d.check(*s.Additional, v, at+".*"))
		default:
			all = errors.Join(all, fmt.Errorf("%s.%s is not described", at, key))
		}
	}
	for _, key := range s.Required {
		if _, there := value[key]; !there {
			all = errors.Join(all, fmt.Errorf("%s.%s is missing", at, key))
		}
	}
	return all
}

func typesOf(s schema) (words []string) {
	switch t := s.Type.(type) {
	case string:
		return []string{t}
	case []any:
		for _, word := range t {
			words = append(words, fmt.Sprint(word))
		}
	}
	return words
}

func checkScalar(s schema, value any, at string) error {
	kinds := map[bool]string{}
	switch value := value.(type) {
	case nil:
		kinds[true] = "null"
	case bool:
		kinds[true] = "boolean"
	case string:
		if _, err := time.Parse(time.RFC3339Nano, value); s.Format == "date-time" && err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		if s.Enum != nil && !slices.Contains(s.Enum, value) {
			return fmt.Errorf("%s: %q is none of %v", at, value, s.Enum)
		}
		kinds[true] = "string"
	case float64:
		if s.Minimum != nil && value < *s.Minimum {
			return fmt.Errorf("%s: %v is below %v", at, value, *s.Minimum)
		}
		kinds[true], kinds[false] = "number", map[bool]string{true: "integer"}[value == float64(int64(value))]
	}
	for _, kind := range kinds {
		if kind != "" && slices.Contains(typesOf(s), kind) {
			return nil
		}
	}
	return fmt.Errorf("%s: %v is not %v", at, value, s.Type)
}

// sample fills a document, each list with one element.
func sample[T any]() (document T) {
	fillSample(reflect.ValueOf(&document).Elem())
	return document
}

func fillSample(v reflect.Value) {
	switch target := v.Addr().Interface().(type) {
	case *lisp.Prefix:
		*target = lisp.MustParsePrefix("[7]10.1.0.0/16")
		return
	case *lisp.EID:
		*target = lisp.EIDFromAddr(netip.MustParseAddr("2001:db8::1"))
		return
	case *lisp.RLOC:
		*target = lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.1"))
		return
	case *netip.Addr:
		*target = netip.MustParseAddr("192.0.2.1")
		return
	case *netip.Prefix:
		*target = netip.MustParsePrefix("192.0.2.0/24")
		return
	case *time.Time:
		*target = time.Unix(1_764_000_000, 5)
		return
	case *api.Outcome:
		*target = api.OutcomeNative
		return
	case *api.Urgency:
		*target = api.UrgencyWarning
		return
	}
	switch v.Kind() {
	case reflect.Interface:
		v.Set(reflect.ValueOf("x"))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("x")
	case reflect.Float64:
		v.SetFloat(0.25)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillSample(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillSample(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		element := reflect.New(v.Type().Elem()).Elem()
		fillSample(element)
		v.SetMapIndex(reflect.ValueOf("x"), element)
	case reflect.Struct:
		for i := range v.NumField() {
			fillSample(v.Field(i))
		}
	default:
		if v.CanInt() {
			v.SetInt(3)
		} else {
			v.SetUint(3)
		}
	}
}

// sampleSource answers with documents that are full, or empty, or not at all.
type sampleSource struct {
	empty bool
	fails error
}

func one[T any](s *sampleSource) (document T, err error) {
	if !s.empty {
		document = sample[T]()
	}
	return document, s.fails
}

func many[T any](s *sampleSource) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if document, err := one[T](s); err != nil || !s.empty {
			yield(document, err)
		}
	}
}

func (s *sampleSource) Status(context.Context) (api.Status, error) { return one[api.Status](s) }
func (s *sampleSource) Health(context.Context) (api.Health, error) { return one[api.Health](s) }
func (s *sampleSource) MapCache(context.Context, api.ListQuery) iter.Seq2[api.MapCacheEntry, error] {
	return many[api.MapCacheEntry](s)
}
func (s *sampleSource) Database(context.Context, api.ListQuery) iter.Seq2[api.DatabaseEntry, error] {
	return many[api.DatabaseEntry](s)
}
func (s *sampleSource) MapRequests(context.Context, api.ListQuery) iter.Seq2[api.PendingMapRequest, error] {
	return many[api.PendingMapRequest](s)
}
func (s *sampleSource) Registrations(context.Context, api.ListQuery) iter.Seq2[api.Registration, error] {
	return many[api.Registration](s)
}
func (s *sampleSource) Locators(context.Context) ([]api.LocatorState, error) {
	return one[[]api.LocatorState](s)
}
func (s *sampleSource) Interfaces(context.Context) (api.Interfaces, error) {
	return one[api.Interfaces](s)
}
func (s *sampleSource) Subflows(context.Context) ([]api.Subflow, error) {
	return one[[]api.Subflow](s)
}
func (s *sampleSource) AnsweredSubflows(context.Context) ([]api.AnsweredSubflow, error) {
	return one[[]api.AnsweredSubflow](s)
}
func (s *sampleSource) NAT(context.Context) (api.NAT, error)           { return one[api.NAT](s) }
func (s *sampleSource) Siblings(context.Context) (api.Siblings, error) { return one[api.Siblings](s) }
func (s *sampleSource) Translations(context.Context) (api.Translations, error) {
	return one[api.Translations](s)
}
func (s *sampleSource) Datapath(context.Context) (api.Datapath, error) { return one[api.Datapath](s) }
func (s *sampleSource) Counters(context.Context) (api.Counters, error) { return one[api.Counters](s) }
func (s *sampleSource) Reload(context.Context) (api.Reload, error)     { return one[api.Reload](s) }
func (s *sampleSource) Explain(context.Context, api.ExplainQuery) (e api.Explanation, err error) {
	if e, err = one[api.Explanation](s); s.empty {
		e.EID, e.Outcome = lisp.EIDFromAddr(netip.MustParseAddr("10.2.0.1")), api.OutcomeUnresolved
	}
	return e, err
}

func (s *sampleSource) RunningConfig(context.Context, bool) (api.RunningConfig, error) {
	return one[api.RunningConfig](s)
}
func (s *sampleSource) LogLevel(context.Context) (api.LogLevel, error) { return one[api.LogLevel](s) }
func (s *sampleSource) SetLogLevel(context.Context, string) (api.LogLevel, error) {
	return one[api.LogLevel](s)
}

// running starts a server, and returns what asks it.
func running(t *testing.T, source Source) (client *http.Client, hub *events.Hub) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "control.sock")
	socket, err := Listen(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	hub = events.NewHub()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		New(socket, source, hub, slog.New(slog.DiscardHandler)).Run(ctx)
	}()
	t.Cleanup(func() { stop(); <-ended })
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
	return &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}, hub
}

// ask holds an answer against the document.
func (d *openAPI) ask(t *testing.T, client *http.Client, method, path, query string, want int) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), strings.ToUpper(method), "http://loci"+path+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(request)
	if err != nil {
		t.Errorf("%s %s: %v", method, path, err)
		return
	}
	defer answer.Body.Close()
	if answer.StatusCode != want {
		t.Errorf("%s %s%s: status %d, want %d", method, path, query, answer.StatusCode, want)
		return
	}
	response, known := d.Paths[path][method].Responses[fmt.Sprint(want)]
	content, typed := response.Content[answer.Header.Get("Content-Type")]
	if !known || !typed {
		t.Errorf("%s %s: status %d with %q is not described", method, path, want, answer.Header.Get("Content-Type"))
		return
	}
	var body any
	if err := json.NewDecoder(answer.Body).Decode(&body); err != nil {
		t.Errorf("%s %s: %v", method, path, err)
		return
	}
	if err := d.check(content.Schema, body, path); err != nil {
		t.Errorf("%s %s%s, status %d:\n%v", method, path, query, want, err)
	}
}

func TestServerAnswersAsTheOpenAPIDocumentSays(t *testing.T) {
	d := readOpenAPI(t)
	source := &sampleSource{}
	client, hub := running(t, source)
	publishing, stop := context.WithCancel(t.Context())
	go func() { // a client that follows gets one soon
		for publishing.Err() == nil {
			e := sample[api.Event]()
			e.Kind = "miss"
			hub.Publish(e)
			time.Sleep(time.Millisecond)
		}
	}()
	defer stop()
	needed := map[string]string{"get" + api.PathExplain: "?eid=10.2.0.1", "post" + api.PathLogLevel: "?level=debug"}
	for _, source.empty = range []bool{false, true} {
		d.each(func(method, path string, _ described) {
			d.ask(t, client, method, path, needed[method+path], http.StatusOK)
		})
	}
	for name, s := range d.Components.Schemas {
		for key := range s.Properties {
			if name != "Problem" && name != "ConfigProblem" && !d.used[name+"."+key] {
				t.Errorf("no answer has %s.%s", name, key)
			}
		}
		if !d.used[name] && name != "Problem" && name != "ConfigProblem" {
			t.Errorf("no answer has a %s", name)
		}
	}
	problem := sample[api.Problem]()
	for _, source.fails = range []error{errors.New("cannot"), fmt.Errorf("no reload: %w", &problem)} {
		d.each(func(method, path string, o described) {
			if _, refuses := o.Responses["422"]; refuses {
				query := needed[method+path]
				if path == api.PathEvents { // it asks nothing that could fail
					query = "?kind=none"
				}
				d.ask(t, client, method, path, query, http.StatusUnprocessableEntity)
			}
		})
	}
	if !d.used["ConfigProblem.column"] {
		t.Error("no answer has the problems of a configuration")
	}
	for range events.MaxSubscribers {
		hub.Subscribe(api.EventQuery{})
	}
	d.ask(t, client, "get", api.PathEvents, "", http.StatusServiceUnavailable)
}

// each calls f for each operation, in one order.
func (d *openAPI) each(f func(method, path string, o described)) {
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		for method, o := range d.Paths[path] {
			f(method, path, o)
		}
	}
}

// TestArgumentsAreTheOpenAPIDocuments: each is read, what is out of its range is refused, and other methods have nothing there.
func TestArgumentsAreTheOpenAPIDocuments(t *testing.T) {
	d := readOpenAPI(t)
	client, _ := running(t, &sampleSource{})
	arguments := 0
	d.each(func(method, path string, o described) {
		for _, p := range o.Parameters {
			arguments++
			query := "?" + p.Name + "=%21wrong"
			if path == api.PathExplain && p.Name != "eid" {
				query += "&eid=10.2.0.1"
			}
			d.ask(t, client, method, path, query, http.StatusUnprocessableEntity)
		}
		other := map[string]string{"get": http.MethodPost, "post": http.MethodGet}[method]
		if _, has := d.Paths[path][strings.ToLower(other)]; has {
			return
		}
		request, _ := http.NewRequestWithContext(t.Context(), other, "http://loci"+path, nil)
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if body, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusNotFound || !bytes.Contains(body, []byte(`"message":"nothing at`)) {
			t.Errorf("%s %s: status %d, %s", other, path, answer.StatusCode, body)
		}
	})
	if arguments < 10 {
		t.Errorf("%d arguments", arguments)
	}
}

// TestCheckFindsDifferences: a document that says something else is told.
func TestCheckFindsDifferences(t *testing.T) {
	d := readOpenAPI(t)
	status := schema{Ref: "#/components/schemas/Problem"}
	for body, want := range map[string]string{
		`{"message":"x","problems":[]}`: "", `{"message":"x"}`: "problems is missing", `{"message":1,"problems":[]}`: "is not [string null]",
		`{"message":"x","problems":[],"more":1}`: "Problem.more is not described", `{"message":"x","problems":{}}`: "an object is not described",
		`{"message":null,"problems":[]}`: "", `{"message":"x","problems":null}`: "is not array", `[]`: "a list is not described",
	} {
		var value any
		if err := json.Unmarshal([]byte(body), &value); err != nil {
			t.Fatal(err)
		}
		if err := d.check(status, value, "body"); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}
