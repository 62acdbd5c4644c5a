// SPDX-License-Identifier: Apache-2.0

package plan

// What a configuration allows, the control plane takes: at both ends of every range
// of the model, so that `loci check` never accepts what `loci run` refuses.

import (
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"loci/config"
	"loci/control"
	"loci/daemon/hostnet"
)

// everythingHost has what config/testdata/everything.yaml names.
var everythingHost = hostnet.Host{View: hostnet.View{Links: []hostnet.Link{
	{Name: "lo", Up: true, Loopback: true}, {Name: "lan0", Up: true}, {Name: "lan1", Up: true},
	{Name: "lan2", Up: true, Addresses: addresses("10.3.0.1")},
	{Name: "wan0", Up: true, Addresses: addresses("192.0.2.50", "2001:db8:c::50")},
	{Name: "wan1", Up: true, Addresses: addresses("2001:db8:c::1")},
}}}

// everyKey is a configuration with every key, without key files.
func everyKey(t *testing.T) *config.Config {
	t.Helper()
	text, err := os.ReadFile("../../config/testdata/everything.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`auth-key-file: [^,}]*`).ReplaceAll(text, []byte("auth-key-value: some-secret"))
	c, err := config.Parse("everything.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// taken says why the control plane does not take a configuration.
func taken(t *testing.T, c *config.Config) error {
	t.Helper()
	p, err := Make(c, everythingHost)
	if err != nil {
		t.Fatal(err)
	}
	return p.Control.Validate()
}

func TestControlPlaneTakesEverything(t *testing.T) {
	if err := taken(t, everyKey(t)); err != nil {
		t.Fatal(err)
	}
}

// ranged is a value of the configuration with the range of its key.
type ranged struct {
	key       string
	value     reflect.Value
	low, high string
}

// rangedOf lists the values below v that have a range.
func rangedOf(v reflect.Value) (list []ranged) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return rangedOf(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			list = append(list, rangedOf(v.Index(i))...)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if low, high, ok := strings.Cut(f.Tag.Get("range"), ".."); ok {
				list = append(list, ranged{f.Tag.Get("key"), v.Field(i), low, high})
			} else if f.Tag.Get("key") != "" {
				list = append(list, rangedOf(v.Field(i))...)
			}
		}
	}
	return list
}

// set gives a value one end of its range.
func set(t *testing.T, v reflect.Value, text string) {
	t.Helper()
	d, err := time.ParseDuration(text)
	number, numberErr := strconv.ParseUint(text, 10, 64)
	switch {
	case v.Type() == reflect.TypeFor[time.Duration]() && err == nil:
		v.SetInt(int64(d))
	case numberErr != nil:
		t.Fatalf("%q is no end of a range", text)
	case v.CanUint():
		v.SetUint(number)
	default:
		v.SetInt(int64(number))
	}
}

func TestControlPlaneTakesEveryRange(t *testing.T) {
	c := everyKey(t)
	list := rangedOf(reflect.ValueOf(c))
	if len(list) < 30 {
		t.Fatalf("%d values with a range", len(list))
	}
	for _, r := range list {
		before := reflect.ValueOf(r.value.Interface())
		for _, end := range []string{r.low, r.high} {
			set(t, r.value, end)
			if err := taken(t, c); err != nil {
				t.Errorf("%s: %s: %v", r.key, end, err)
			}
		}
		r.value.Set(before)
	}
}

// TestRatesOfBothPackages: config and control agree which rates there are.
func TestRatesOfBothPackages(t *testing.T) {
	for _, text := range []string{
		"1/h", "3/h", "4/h", "1/1000s", "1/1001s", "1/16m", "1/17m", "10000000/h", "1/ms", "1000000/ms", "1000001/ms", "10000000/ms", "10000000/10ms", "10000000/9ms",
	} {
		for _, burst := range []int{0, 1, 1_000_000, 1_000_001, 10_000_000} {
			c, err := config.Parse("f", []byte("map-resolver: {ms-address: [192.0.2.1]}\nlimits: {notices: {rate: "+text+", burst: "+strconv.Itoa(burst)+"}}\n"))
			limits := control.Limits{Notices: control.Rate{PerSecond: perSecond(t, text), Burst: burst}}
			if refused := (control.Config{Limits: limits}).Validate(); (err == nil) != (refused == nil) {
				t.Errorf("%s, burst %d: config says %v, control %v", text, burst, err, refused)
			}
			if err == nil && taken(t, c) != nil {
				t.Errorf("%s, burst %d: %v", text, burst, taken(t, c))
			}
		}
	}
}

// perSecond reads a rate without asking config.
func perSecond(t *testing.T, text string) float64 {
	t.Helper()
	count, period, _ := strings.Cut(text, "/")
	if strings.Trim(period[:1], "0123456789") != "" {
		period = "1" + period
	}
	n, err := strconv.ParseFloat(count, 64)
	d, failed := time.ParseDuration(period)
	if err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	return n / d.Seconds()
}
