// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
)

// emitter turns the subjects of one State into series. The series of a subject
// share its label pairs. prometheus.NewConstMetric would make all of them anew for
// each series, which for the labels of a process is 33 allocations and a sort.
type emitter struct {
	ch    chan<- prometheus.Metric
	state *State
	row   *row
	// base are the labels of the subject in the order of scopeLabels, sorted the
	// same by name.
	base, sorted []*dto.LabelPair
	// last holds the label values of the last subject of each scope.
	last [numScopes][]string
	// seen are the row's own labels that were emitted for this subject.
	seen [][]ownLabel
	// slab holds series to hand out, so that not each is an allocation.
	slab []series
	// windows are the lengths of windows as Prometheus prints durations.
	windows map[time.Duration]string
}

// windowName returns the length of a window as the value of a label.
func (e *emitter) windowName(span time.Duration) string {
	name, ok := e.windows[span]
	if !ok {
		name = model.Duration(span).String()
		if e.windows == nil {
			e.windows = map[time.Duration]string{}
		}
		e.windows[span] = name
	}
	return name
}

// ownLabel is a label that the subject does not carry, and where its value lies.
type ownLabel struct {
	pair  dto.LabelPair
	value string
}

// row is a metric that is switched on.
type row struct {
	metric
	desc *prometheus.Desc
	// order gives, for each label of a series by name, its position among the
	// scope's labels followed by the row's own.
	order []int
}

func newRow(m metric, o Options) row {
	if m.wanted != nil && m.wanted(o) {
		m.labels = append(slices.Clip(m.labels), m.optional)
	}
	labels := slices.Concat(scopeLabels[m.scope], m.labels)
	return row{
		metric: m,
		desc:   prometheus.NewDesc(m.name, m.help, labels, nil),
		order:  sortedOrder(labels),
	}
}

// sortedOrder returns the positions of labels in the order of their names, as
// client_golang wants them.
func sortedOrder(labels []string) []int {
	order := make([]int, len(labels))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(labels[a], labels[b]) })
	return order
}

var scopeOrder = func() (orders [numScopes][]int) {
	for s, labels := range scopeLabels {
		orders[s] = sortedOrder(labels)
	}
	return orders
}()

// enter makes what is emitted from now on be about the subject with these values
// of its scope's labels. It keeps values. It returns false if they are those of
// the last subject of that scope, whose series would be the same: one duplicate
// fails a whole scrape.
func (e *emitter) enter(s scope, values ...string) bool {
	names := scopeLabels[s]
	for i := range values {
		values[i] = labelValue(names[i], values[i])
	}
	if e.last[s] != nil && slices.Equal(values, e.last[s]) {
		return false
	}
	e.last[s] = values
	pairs := make([]dto.LabelPair, len(values))
	list := make([]*dto.LabelPair, 2*len(values))
	e.base, e.sorted = list[:len(values)], list[len(values):]
	for i := range pairs {
		pairs[i].Name, pairs[i].Value = &names[i], &values[i]
		e.base[i] = &pairs[i]
	}
	for i, o := range scopeOrder[s] {
		e.sorted[i] = e.base[o]
	}
	return true
}

// emitAll emits the series of all rows for the subject that was entered; of a
// GPU that is not up, only of the rows that are exported even so.
func (e *emitter) emitAll(rows []row, x any, up bool) {
	for i := range rows {
		if !up && !rows[i].down {
			continue
		}
		e.row, e.seen = &rows[i], e.seen[:0]
		rows[i].collect(x, e)
	}
}

// maybe emits o if it is there.
func (e *emitter) maybe(o optional, labels ...string) {
	if o.OK {
		e.emit(o.V, labels...)
	}
}

// emit emits one series of the current row and subject. labels are the values of
// the row's own labels; what stands beyond them belongs to a label that is not
// wanted. NaN is not exported: it would stand for a value that is not known,
// which has no series. Neither is a second series of the same labels.
func (e *emitter) emit(v float64, labels ...string) {
	if math.IsNaN(v) {
		return
	}
	pairs := e.sorted
	if len(e.row.labels) > 0 {
		own := e.own(labels)
		if own == nil {
			return
		}
		pairs = make([]*dto.LabelPair, len(e.row.order))
		for i, o := range e.row.order {
			if o < len(e.base) {
				pairs[i] = e.base[o]
			} else {
				pairs[i] = &own[o-len(e.base)].pair
			}
		}
	}
	if len(e.slab) == 0 {
		e.slab = make([]series, 128)
	}
	s := &e.slab[0]
	e.slab = e.slab[1:]
	s.row, s.value, s.labels = e.row, v, pairs
	e.ch <- s
}

// own returns the row's own labels with these values, nil if a series of this
// subject has them already.
func (e *emitter) own(values []string) []ownLabel {
	own := make([]ownLabel, len(e.row.labels))
	for i := range own {
		name := &e.row.labels[i]
		own[i].value = labelValue(*name, values[i])
		own[i].pair.Name, own[i].pair.Value = name, &own[i].value
	}
	for _, other := range e.seen {
		if sameValues(own, other) {
			return nil
		}
	}
	e.seen = append(e.seen, own)
	return own
}

func sameValues(a, b []ownLabel) bool {
	for i := range a {
		if a[i].value != b[i].value {
			return false
		}
	}
	return true
}

// series is one series at one scrape. It implements prometheus.Metric.
type series struct {
	row    *row
	value  float64
	labels []*dto.LabelPair
}

// Desc returns the descriptor of the metric.
func (s *series) Desc() *prometheus.Desc { return s.row.desc }

// Write fills out. It never fails.
func (s *series) Write(out *dto.Metric) error {
	out.Label = s.labels
	if s.row.kind == prometheus.CounterValue {
		out.Counter = &dto.Counter{Value: &s.value}
	} else {
		out.Gauge = &dto.Gauge{Value: &s.value}
	}
	return nil
}

// labelValue returns value as it can stand in a label: valid UTF-8, and no
// longer than the label needs, for processes choose their own names.
func labelValue(label, value string) string {
	limit := 128
	switch label {
	case "command", "image":
		limit = 256 // of an image the end tells the version
	case "pod":
		limit = 253 // Kubernetes allows so many, and half a name joins with nothing
	}
	value = strings.ToValidUTF8(value, string(utf8.RuneError))
	if len(value) <= limit {
		return value
	}
	for !utf8.RuneStart(value[limit]) {
		limit--
	}
	return value[:limit]
}
