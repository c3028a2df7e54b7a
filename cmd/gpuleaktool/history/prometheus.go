// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/alecthomas/kingpin/v2"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/command"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/cli"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/promapi"
)

const (
	// chunkPoints is how many points are asked for at once: Prometheus refuses more
	// than 11,000 a series.
	chunkPoints = 10_000
	// fewestPoints is the number from which on less is not tried.
	fewestPoints = 100
	// askTimeout bounds one request.
	askTimeout = 5 * time.Minute
)

// Prometheus is the history that a Prometheus keeps.
type Prometheus struct {
	URL, Query, capacity string
	HTTPConfig           string // file
	step                 time.Duration
	start, end           string
	Warn                 func(string)
}

// AddFlags adds the flags of the query.
func (q *Prometheus) AddFlags(cmd *kingpin.CmdClause) {
	cmd.Flag("prometheus.url", "Address of a Prometheus to read from, such as http://localhost:9090.").StringVar(&q.URL)
	cmd.Flag("query", "PromQL for the used memory, such as DCGM_FI_DEV_FB_USED. Each series that it returns is judged. Of gpu_memory_used_bytes the processes and MIG slices are, too.").StringVar(&q.Query)
	cmd.Flag("capacity.query", "PromQL for the memory that there is, such as gpu_memory_total_bytes - gpu_memory_reserved_bytes. Its series are those of --query that agree in all labels that both have. Metrics of this exporter, DCGM's and nvidia_gpu_exporter's need none.").StringVar(&q.capacity)
	cmd.Flag("query-step", "Time between two points to ask for.").Default("15s").SetValue(cli.Duration("query-step", &q.step, time.Second, 5*time.Minute)) // with longer ones tickets and leaks are missed
	cmd.Flag("start", "Where the history begins: 2026-03-01T00:00:00Z, or -6h before now.").StringVar(&q.start)
	cmd.Flag("end", "Where it ends, in the same forms; now if left out.").StringVar(&q.end)
	cmd.Flag("http.config.file", "Basic authentication, TLS and so on for the Prometheus: the http_config of its own configuration.").StringVar(&q.HTTPConfig)
}

// Check returns an error if something is missing or without effect.
func (q *Prometheus) Check() error {
	switch _, err := promapi.ParseURL(q.URL); {
	case q.URL == "" && (q.Query != "" || q.capacity != "" || q.start != "" || q.end != "" || q.HTTPConfig != ""):
		return errors.New("--query, --capacity.query, --start, --end and --http.config.file need --prometheus.url")
	case q.URL == "":
		return nil
	case err != nil:
		return fmt.Errorf("--prometheus.url: %w", err)
	case q.Query == "":
		return errors.New("--query is missing: the used memory, such as --query=gpu_memory_used_bytes or --query=DCGM_FI_DEV_FB_USED")
	case q.start == "":
		return errors.New("--start is missing: where the history begins, such as --start=-6h or --start=2026-03-01T00:00:00Z")
	}
	return nil
}

// TimeRange returns the times to ask for, aligned to the step, so that two calls
// see the same points.
func (q *Prometheus) TimeRange(now time.Time) (v1.Range, error) {
	r := v1.Range{Start: now, End: now, Step: q.step}
	for _, m := range []struct {
		flag, text string
		t          *time.Time
	}{{"start", q.start, &r.Start}, {"end", q.end, &r.End}} {
		t, err := parseMoment(m.text, now)
		if err != nil {
			return r, fmt.Errorf("--%s=%s: %w", m.flag, m.text, err)
		}
		*m.t = t.Truncate(q.step)
	}
	if !r.Start.Before(r.End) {
		return r, fmt.Errorf("--start (%s) is not before --end (%s)", r.Start.UTC().Format(time.RFC3339), r.End.UTC().Format(time.RFC3339))
	}
	return r, nil
}

// parseMoment reads a time: RFC 3339, seconds since the Unix epoch, or a duration
// before now, such as -6h. Nothing is now.
func parseMoment(text string, now time.Time) (time.Time, error) {
	if text == "" || text == "now" {
		return now, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	if s, err := strconv.ParseUint(text, 10, 33); err == nil {
		return time.Unix(int64(s), 0), nil
	}
	if text[0] == '-' {
		if d, err := cli.ParseDuration(text[1:]); err == nil && d >= 0 {
			return now.Add(-d), nil
		}
	}
	return now, errors.New("is not a time: give it as 2026-03-01T00:00:00Z, or as -6h before now")
}

// Read asks for the whole range. unit is how many bytes one is; 0 is to find out.
func (q *Prometheus) Read(ctx context.Context, r v1.Range, unit float64) (History, error) {
	cfg, err := promapi.LoadHTTP(q.HTTPConfig)
	if err != nil {
		return nil, err
	}
	client, err := promapi.NewClient(promapi.ClientConfig{URL: q.URL, HTTP: cfg, HTTPFlag: "--http.config.file=" + q.HTTPConfig, Program: command.Program})
	if err != nil {
		return nil, err
	}
	query, metric := q.Query, ""
	if q.capacity == "" {
		query, metric = withBounds(query)
	}
	all, err := q.ask(ctx, client, "query", query, r)
	if err != nil {
		return nil, err
	}
	used := usedNames(all)
	if metric != "" && !slices.Contains(used, metric) {
		return nil, errNoResult("query", r) // but of what it was to be judged with
	}
	if err := toBytes(all, unit, used, "query", query); err != nil {
		return nil, err
	}
	if q.capacity == "" {
		return newAnswer(all, used, nil)
	}
	for _, name := range used {
		if s := promapi.MemoryMetrics[name].Scope; s == promapi.ScopeProcess || s == promapi.ScopeWorkload {
			return nil, fmt.Errorf("--capacity.query: %s is a part of a memory, and what others hold of that is not known: leave it out, or ask for gpu_memory_used_bytes", name)
		}
	}
	totals, err := q.ask(ctx, client, "capacity.query", q.capacity, r)
	if err != nil {
		return nil, err
	}
	if err := toBytes(totals, unit, namesIn(totals), "capacity.query", q.capacity); err != nil {
		return nil, err
	}
	return newAnswer(all, used, totals)
}

// facts are series of this exporter that are no amounts of memory.
var facts = []string{"gpu_info", "gpu_process_start_time_seconds", "gpu_process_sm_utilization_ratio", "gpu_process_idle_seconds"}

// toBytes turns what the query of a flag has found into amounts. The unit is that given, or else that of the names of what is
// used memory for certain.
func toBytes(all []*series, unit float64, names []string, flag, query string) error {
	unit, err := promapi.UnitOfAll(unit, names, query)
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	for _, x := range all {
		if !slices.Contains(facts, x.name) || slices.Contains(names, x.name) {
			if err := x.toBytes(unit); err != nil {
				return err
			}
		}
	}
	return nil
}

// namesIn returns the names of series, in order. A query may have taken them away: "" is one, too.
func namesIn(list []*series) []string {
	names := map[string]bool{}
	for _, x := range list {
		names[x.name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// usedNames returns the names of series that are used memory: those that do not
// tell more about another one.
func usedNames(list []*series) []string {
	names := namesIn(list)
	more := map[string]bool{}
	for _, name := range names {
		for _, bound := range promapi.MemoryMetrics[name].Bounds() {
			more[bound] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		_, memory := promapi.MemoryMetrics[name]
		return !memory && (more[name] || parts[name] != nil && slices.Contains(names, ownMemory))
	})
}

// withBounds returns a query that asks for what bounds the used memory, too, and for the
// parts of that of a GPU, if it asks for a known metric and does nothing with it. metric is that;
// "" is another query.
func withBounds(query string) (all, metric string) {
	s, ok := promapi.ParseSelector(query)
	if !ok {
		return query, ""
	}
	names := append([]string{s.Name}, s.Metric.Bounds()...)
	if s.Name == ownMemory {
		names = append(names, slices.Sorted(maps.Keys(parts))...)
	}
	return s.Of(names...), s.Name
}

// ask asks for a query over the whole range, in chunks. flag is what gave the query.
func (q *Prometheus) ask(ctx context.Context, client *promapi.Client, flag, query string, r v1.Range) ([]*series, error) {
	m := matrix{series: map[string]*series{}}
	points := min(chunkPoints, int(r.End.Sub(r.Start)/r.Step)+1)
	for start := r.Start; !start.After(r.End); {
		chunk := r
		chunk.Start = start
		if end := start.Add(time.Duration(points-1) * r.Step); end.Before(r.End) {
			chunk.End = end
		}
		err := q.askChunk(ctx, client, query, chunk, &m)
		if promapi.IsTooMuch(err) && points > fewestPoints {
			points = (points + 1) / 2
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", flag, err)
		}
		start = chunk.End.Add(r.Step)
	}
	if len(m.order) == 0 {
		if m.found {
			return nil, fmt.Errorf("--%s: what it found is no amount: all of it is NaN, infinite or a histogram", flag)
		}
		return nil, errNoResult(flag, r)
	}
	slices.SortFunc(m.order, func(a, b *series) int { return cmp.Compare(a.String(), b.String()) })
	return m.order, nil
}

// errNoResult says that the query of a flag found nothing.
func errNoResult(flag string, r v1.Range) error {
	return fmt.Errorf("--%s: has no result from %s to %s: check the query and the range", flag, r.Start.UTC().Format(time.RFC3339), r.End.UTC().Format(time.RFC3339))
}

// askChunk adds what a part of the range holds.
func (q *Prometheus) askChunk(ctx context.Context, client *promapi.Client, query string, r v1.Range, m *matrix) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	value, warnings, _, err := client.QueryRange(ctx, query, r)
	for _, w := range warnings {
		q.Warn(w)
	}
	if err != nil {
		return client.Refused(err)
	}
	part, err := promapi.MatrixOf(value)
	if err != nil {
		return err
	}
	return m.add(part)
}
