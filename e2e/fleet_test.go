// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && nightly

package e2e

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// fakeDCGM is a DCGM exporter as it is on two nodes: its names and labels, the values of a test. Of the first GPU the
// memory grows.
type fakeDCGM struct {
	node  string
	label string      // that has the name of the node
	lost  atomic.Bool // the second GPU tells nothing
	began time.Time
}

func (f *fakeDCGM) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	for gpu, used := range []int{40000 + int(time.Since(f.began).Seconds())*20, 30000} {
		if gpu == 1 && f.lost.Load() {
			continue
		}
		pod := `container="main",namespace="training",pod="llama-0"`
		if gpu == 1 {
			pod = `container="",namespace="",pod=""`
		}
		labels := fmt.Sprintf(`gpu="%d",UUID="GPU-%s-%d",pci_bus_id="00000000:3B:00.0",device="nvidia%d",modelName="NVIDIA H100 80GB HBM3",%s="%s",DCGM_FI_DRIVER_VERSION="580.95.05",%s`, gpu, f.node, gpu, gpu, f.label, f.node, pod)
		fmt.Fprintf(w, "DCGM_FI_DEV_FB_USED{%s} %d\nDCGM_FI_DEV_FB_FREE{%s} %d\n", labels, used, labels, 81000-used)
	}
}

// fleet starts two nodes with DCGM exporter, a real Prometheus with the example's configuration, and an exporter that
// asks it. Prometheus has to know the exporter's address before it runs.
func fleet(t *testing.T, args ...string) (nodes [2]*fakeDCGM, prometheus, exporter *harness.Process) {
	t.Helper()
	var targets [2]string
	for i := range nodes {
		nodes[i] = &fakeDCGM{node: fmt.Sprintf("node%d", i+1), label: []string{"Hostname", "hostname"}[i], began: time.Now()}
		server := httptest.NewServer(nodes[i])
		t.Cleanup(server.Close)
		targets[i] = strings.TrimPrefix(server.URL, "http://")
	}
	address := harness.FreeAddress(t)
	config := harness.ReadExample(t, "prometheus-fleet.yml")
	config = harness.Replace(t, config, "localhost:9400", strings.Join(targets[:], "', '"), 1)
	config = harness.Replace(t, config, "'localhost:9844'", "'"+address+"'", 1)
	config = harness.Replace(t, config, "/etc/prometheus/rules/gpu_leak_exporter/*.yaml", filepath.Join(harness.FastRules(t), "*.yaml"), 1)
	config = harness.Replace(t, config, ": 15s", ": 1s", 2)
	config = harness.Replace(t, config, "interval: 30s", "interval: 1s", 1)
	config = harness.Replace(t, config, "timeout: 20s", "timeout: 1s", 1)
	prometheus = harness.StartPrometheus(t, config)
	exporter = harness.StartExporter(t, harness.Options{Address: address, Args: append([]string{
		"--source=prometheus:" + strings.Replace(prometheus.URL, "http://", "http://me:hunter2@", 1), "--sample.interval=1s", "--detector.window=1m",
	}, args...)})
	return nodes, prometheus, exporter
}

// TestFleet judges the GPUs of two nodes that run DCGM exporter, by a real Prometheus that scrapes both and the exporter.
func TestFleet(t *testing.T) {
	config := filepath.Join(t.TempDir(), "fleet.yml")
	harness.WriteFile(t, config, "max_age: 30s\n")
	nodes, prometheus, exporter := fleet(t, "--source.config="+config, "--collector.process.detail=all")
	harness.Eventually(t, 10*time.Minute, func() error {
		grows, err := prometheus.Query(`gpu_leak_slope_bytes_per_second{window="1m"} > 10 * 1048576`)
		if err != nil || len(grows) != 2 {
			return fmt.Errorf("the memory of %d GPUs grows, %w\n%s", len(grows), err, exporter.Output())
		}
		return nil
	})
	for _, s := range query(t, prometheus, `gpu_memory_used_bytes`) {
		node, gpu := strings.Split(s.Labels["uuid"], "-")[1], s.Labels["gpu"]
		want := map[string]string{
			"__name__": "gpu_memory_used_bytes", "job": "gpu_leak_exporter", "gpu": gpu, "uuid": "GPU-" + node + "-" + gpu, "Hostname": node, "instance": node,
		}
		if gpu == "0" {
			want["namespace"], want["pod"], want["container"] = "training", "llama-0", "main"
		}
		if !s.Has(want) || len(s.Labels) != len(want) {
			t.Errorf("labels %v, want %v", s.Labels, want)
		}
	}
	for _, s := range query(t, prometheus, `gpu_memory_total_bytes`) {
		equal(t, s.Value, 81000<<20, "%v", s.Labels)
	}
	// The value is that which Prometheus has of the time that the sample tells.
	query(t, prometheus, `gpu_memory_used_bytes == on (uuid) label_replace(DCGM_FI_DEV_FB_USED, "uuid", "$1", "UUID", "(.*)") * 1048576`)
	// What is the exporter's own has its own instance.
	if s := query(t, prometheus, `gpu_leak_exporter_source_up`); s[0].Value != 1 || s[0].Labels["instance"] != exporter.Address() {
		t.Errorf("%v", s)
	}
	if strings.Contains(exporter.Output(), "hunter2") || strings.Contains(exporter.Output(), "me:") {
		t.Errorf("the log has the password: %s", exporter.Output())
	}

	// One GPU among others is lost; of a node that goes nothing is known.
	becomes := func(up float64) {
		harness.Eventually(t, 10*time.Minute, func() error {
			if v, err := exporter.Scrape(t).Value("gpu_up", map[string]string{"uuid": "GPU-node1-1"}); err != nil || v != up {
				return fmt.Errorf("it is not yet %g: %g, %w", up, v, err)
			}
			return nil
		})
	}
	nodes[0].lost.Store(true)
	becomes(0)
	query(t, prometheus, `ALERTS{alertname="GPULost", alertstate="firing", uuid="GPU-node1-1"}`)
	nodes[0].lost.Store(false)
	becomes(1)

	// A Prometheus that is down is no GPU that is lost.
	prometheus.Stop(t)
	harness.Eventually(t, 10*time.Minute, func() error {
		m := exporter.Scrape(t)
		if n := len(m.All("gpu_up", nil)); n != 0 {
			return fmt.Errorf("%d GPUs still have series", n)
		}
		silent, err := m.Value("gpu_leak_exporter_source_gpus", map[string]string{"state": "silent"})
		up, err2 := m.Value("gpu_leak_exporter_source_up", nil)
		if silent != 4 || up != 0 || err != nil || err2 != nil {
			return fmt.Errorf("silent %g, up %g, %w, %w", silent, up, err, err2)
		}
		return nil
	})
}

// TestExamplesFleet runs the exporter as the manifest does, with no rights, and holds the manifest to that.
func TestExamplesFleet(t *testing.T) {
	text, list := manifests(t, "kubernetes/fleet.yaml")
	for _, never := range []string{"hostPath", "hostPID", "hostNetwork", "privileged: true", "add:", "runAsUser: 0"} {
		if strings.Contains(text, never) {
			t.Errorf("the manifest has %s", never)
		}
	}
	deployment := list[len(list)-1]
	containers := deployment.Spec.Template.Spec.Containers
	if deployment.Kind != "Deployment" || len(containers) != 1 || len(containers[0].Args) < 2 {
		t.Fatalf("%+v", deployment)
	}
	if got := containers[0].SecurityContext.Capabilities; got.Add != nil || len(got.Drop) != 1 || got.Drop[0] != "ALL" {
		t.Errorf("capabilities %+v", got)
	}
	dcgm := httptest.NewServer(&fakeDCGM{node: "node1", label: "Hostname", began: time.Now()})
	defer dcgm.Close()
	prometheus := harness.StartPrometheus(t, fmt.Sprintf("scrape_configs: [{job_name: dcgm-exporter, scrape_interval: 1s, static_configs: [{targets: ['%s']}]}]", strings.TrimPrefix(dcgm.URL, "http://")))
	query(t, prometheus, `DCGM_FI_DEV_FB_USED`)
	var args []string
	for _, arg := range containers[0].Args {
		switch {
		case strings.HasPrefix(arg, "--web.listen-address="): // the harness has a free port
		case strings.HasPrefix(arg, "--source="):
			args = append(args, "--source=prometheus:"+prometheus.URL)
		default:
			args = append(args, arg)
		}
	}
	exporter := harness.StartExporter(t, harness.Options{Args: args, Unprivileged: true})
	harness.Eventually(t, 10*time.Minute, func() error {
		if n := len(exporter.Scrape(t).All("gpu_up", nil)); n != 2 {
			return fmt.Errorf("%d GPUs: %s", n, exporter.Output())
		}
		return nil
	})
}

const (
	fleetGPUs = 10_000
	// leaksFor is how long the leaks are on when the exporter starts; 41 GB are free then.
	leaksFor = 2 * time.Hour
	// fleetPast is how much history is read, and fleetFor how long the background is measured.
	fleetPast, fleetFor = "6h", 2 * time.Minute
)

// fakeFleet answers as a Prometheus that has scraped DCGM exporter on nodes with 8 GPUs each, every 15 s. One GPU of
// 100 leaks 200 MiB a minute, from a moment on.
type fakeFleet struct {
	gpus  int
	leaks int64 // when they begin, in seconds since the Unix epoch
}

func (f fakeFleet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.FormValue("query")
	i := strings.LastIndexByte(query, '[')
	if i < 0 { // whether it answers at all
		_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"vector","result":[]}}`)
		return
	}
	span, err := time.ParseDuration(strings.TrimSuffix(query[i+1:], "]"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	at := time.Now().Unix()
	if s, err := strconv.ParseFloat(r.FormValue("time"), 64); err == nil {
		at = int64(s)
	}
	var out io.Writer = w
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
		defer z.Close()
		out = z
	}
	b := []byte(`{"status":"success","data":{"resultType":"matrix","result":[`)
	first := true
	for g := range f.gpus {
		for _, metric := range []string{"DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"} {
			if !strings.Contains(query[:i], metric) {
				continue
			}
			if !first {
				b = append(b, ',')
			}
			first = false
			b = fmt.Appendf(b, `{"metric":{"__name__":%q,"DCGM_FI_DRIVER_VERSION":"580.95.05","Hostname":"gpu-node-%04d","UUID":"GPU-%08x-7314-46f8-abc4-b88b36dcf3ef","container":"main","device":"nvidia%d","gpu":"%d","instance":"10.0.%d.%d:9400","job":"dcgm-exporter","modelName":"NVIDIA H100 80GB HBM3","namespace":"training","pci_bus_id":"00000000:%02X:00.0","pod":"train-llama-%05d-worker-%d"},"values":[`,
				metric, g/8, g, g%8, g%8, g/8/250, g/8%250, g%8+16, g/8, g%8)
			for t := (at-int64(span.Seconds()))/15*15 + 15; t <= at; t += 15 {
				used := 40000 + g%100*20 + int(t/15+int64(g))%7
				if g%100 == 0 {
					used += int(max(0, t-f.leaks)) * 10 / 3
				}
				if metric == "DCGM_FI_DEV_FB_FREE" {
					used = 81000 - used
				}
				b = fmt.Appendf(b, `[%d.123,"%d"],`, t, used)
			}
			if b[len(b)-1] == ',' {
				b = b[:len(b)-1]
			}
			b = append(b, "]}"...)
			if len(b) > 1<<20 {
				_, _ = out.Write(b)
				b = b[:0]
			}
		}
	}
	_, _ = out.Write(append(b, "]}}"...))
}

// TestFleetCost, which make bench-fleet runs alone, measures what a fleet costs: CPU a second while it is asked for and nobody scrapes, CPU and size of a
// scrape, and memory.
func TestFleetCost(t *testing.T) {
	server := httptest.NewServer(fakeFleet{fleetGPUs, time.Now().Add(-leaksFor).Unix()})
	defer server.Close()
	began := time.Now()
	config := filepath.Join(t.TempDir(), "fleet.yml")
	harness.WriteFile(t, config, "history: "+fleetPast+"\n")
	exporter := harness.StartExporter(t, harness.Options{Args: []string{"--source=prometheus:" + server.URL, "--source.config=" + config}})
	harness.Eventually(t, 10*time.Minute, func() error {
		if strings.Count(exporter.Output(), "The history was read") == 0 {
			return errors.New("the history is being read")
		}
		m, err := exporter.TryScrape()
		if err != nil {
			return err
		}
		if n := len(m.All("gpu_leak_detected", nil)); n != fleetGPUs {
			return fmt.Errorf("%d GPUs have a verdict\n%s", n, exporter.Output())
		}
		return nil
	})
	cpu := func() float64 {
		m, err := harness.ParseMetrics(fetch(t, exporter, "", "identity"))
		harness.Must(t, err)
		v, err := m.Value("process_cpu_seconds_total", nil)
		harness.Must(t, err)
		return v
	}
	t.Logf("all have verdicts after %s and %.1f s of CPU, with %s of history", time.Since(began).Round(time.Second), cpu(), fleetPast)

	const scrapes = 10
	before := cpu()
	size, zipped := 0, 0
	for range scrapes {
		size = len(fetch(t, exporter, "", "identity"))
	}
	plain := (cpu() - before) / (scrapes + 1)
	before = cpu()
	for range scrapes {
		zipped = len(fetch(t, exporter, "", "gzip"))
	}
	packed := (cpu() - before - plain) / scrapes
	m, err := harness.ParseMetrics(fetch(t, exporter, "", "identity"))
	harness.Must(t, err)
	t.Logf("a scrape: %d series, %.1f MB plain in %.0f ms of CPU, %.2f MB with gzip in %.0f ms", len(m), float64(size)/1e6, 1e3*plain, float64(zipped)/1e6, 1e3*packed)

	before, began = cpu(), time.Now()
	time.Sleep(fleetFor)
	used := cpu() - before - plain
	m, err = harness.ParseMetrics(fetch(t, exporter, "", "identity"))
	harness.Must(t, err)
	rss, err := m.Value("process_resident_memory_bytes", nil)
	harness.Must(t, err)
	t.Logf("%d GPUs at 15 s: %.1f ms of CPU a second, %.0f MiB resident, %d leaks", fleetGPUs, 1e3*used/time.Since(began).Seconds(), rss/(1<<20), len(m.All("gpu_leak_rate_bytes_per_second", nil)))
}
