// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

// historyCapacity is what the GPUs of a history of used memory are taken to have, which it
// does not tell. The pods of the public one hold up to 47 GiB.
const historyCapacity = 80 << 30

// readHistory reads the series of used memory from a file in the text format of
// OpenMetrics, in which each has its samples in the order of time.
func readHistory(path string) ([]*trace, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []*trace
	first := map[string]int64{} // ms, by name
	of := map[string]*trace{}
	p := textparse.NewOpenMetricsParser(text, labels.NewSymbolTable())
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var l labels.Labels
		p.Labels(&l)
		name := l.String()
		_, at, used := p.Series()
		if at == nil {
			return nil, fmt.Errorf("%s: a sample of %s has no time", path, name)
		}
		if math.IsNaN(used) {
			continue // the series was not there then
		}
		tr := of[name]
		if tr == nil {
			tr = &trace{name: name, capacity: historyCapacity}
			of[name], first[name] = tr, *at
			all = append(all, tr)
		}
		tr.samples = append(tr.samples, traceSample{time.Duration(*at-first[name]) * time.Millisecond, int64(used)})
	}
}
