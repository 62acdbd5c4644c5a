// SPDX-License-Identifier: Apache-2.0

package temptcp

// What a run leaves: tables on the screen, the object, a line for each sample, and drawings.

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"loci/internal/jsondoc"
	"loci/internal/table"
	"loci/lab/chart"
	"loci/lab/experiment"
)

// print shows medians and verdicts.
func (r *run) print() {
	var text bytes.Buffer
	w := table.New(&text)
	w.Rows("SOURCE\tMODE\tRECEIVE BUFFER\tMEDIAN GOODPUT\tSUBFLOWS' LOSS\tSHARES")
	for _, a := range append(r.plan.arms(bindingStateless), r.plan.arms(bindingStateful)...) {
		if row := r.document.row(of{a.source.Site, a.mode.String(), a.buffer}, a.mode.subflows()); row != "" {
			w.Rows(row)
		}
	}
	_ = w.Flush() // into memory
	r.screen.Line("\n%s", text.String())
	r.screen.Line("scheduler of Multipath TCP: %s; congestion control: %s", r.document.Scheduler,
		r.p.CongestionControl)
	r.screen.Line("packets were late on the links between sites by up to %.1f ms (99th percentile)",
		r.document.WiresLate.Milliseconds())
	for _, v := range r.document.Relations {
		r.screen.Line("%s: %s", v.Relation, v.Text)
	}
}

// row is one mode's, empty where it was not measured.
func (d *Document) row(o of, subflows int) string {
	var all []float64
	for _, t := range d.find(o) {
		all = append(all, t.Goodput)
	}
	goodput, known := median(all)
	if !known {
		return ""
	}
	loss, _ := d.ofSubflows(o, 0, lossOf)
	shares := ""
	for number := range subflows {
		share, _ := d.ofSubflows(o, number+1, shareOf)
		shares += fmt.Sprintf("%.0f ", 100*share)
	}
	return fmt.Sprintf("%s\t%s\t%s\t%.1f Mbit/s\t%.2f %%\t%s%%", o.source, o.mode, bufferText(o.buffer),
		goodput/1e6,
		100*loss, shares)
}

// write prints the object where that is asked for, and writes all files.
func (d *Document) write(p *parameters, o experiment.Options) error {
	var all []error
	if o.JSON {
		all = append(all, jsondoc.WriteIndented(o.Output, d))
	}
	if o.Out == "" {
		return errors.Join(all...)
	}
	encoded, err := jsondoc.Indented(d, "")
	all = append(all, err, os.MkdirAll(o.Out, 0o755))
	files := map[string][]byte{".json": append(encoded, '\n')}
	if d.Error == "" || len(d.Deviations) > 0 {
		files[".csv"], err = d.samples()
		all = append(all, err)
		for name, panels := range d.drawings(p) {
			files["-"+name+".svg"] = []byte(chart.Draw(panels...))
		}
	}
	for suffix, content := range files {
		all = append(all, os.WriteFile(filepath.Join(o.Out, Name+suffix), content, 0o644))
	}
	return errors.Join(all...)
}

// samples are the lines of all figures: 5 is loss, 6 differential_rtt and goodput, 7 rtt, 8 goodput, 9 share. Those of
// the whole transfer have path 0; those of the sweep have swept_seconds.
func (d *Document) samples() ([]byte, error) {
	var text bytes.Buffer
	w := csv.NewWriter(&text)
	all := [][]string{{"source", "mode", "receive_buffer_octets", "round", "swept_seconds", "path", "metric",
		"unit", "value"}}
	for i := range d.Transfers {
		t := &d.Transfers[i]
		all = append(all, t.line(0, "goodput", "bit/s", t.Goodput))
		if differential, known := t.differential(); known {
			all = append(all, t.line(0, "differential_rtt", "s", differential))
		}
		for _, s := range t.Subflows {
			all = append(all, t.line(s.Number, "loss", "", s.Loss),
				t.line(s.Number, "rtt", "s", float64(s.RTT)),
				t.line(s.Number, "share", "", s.Share))
		}
	}
	err := w.WriteAll(all)
	return text.Bytes(), err
}

func (t *Transfer) line(path int, metric, unit string, value float64) []string {
	swept := ""
	if t.Swept != nil {
		swept = strconv.FormatFloat(float64(*t.Swept), 'g', -1, 64)
	}
	return []string{t.Source, t.Mode, strconv.Itoa(t.Buffer), strconv.Itoa(t.Round), swept, strconv.Itoa(path),
		metric, unit,
		strconv.FormatFloat(value, 'g', 6, 64)}
}
