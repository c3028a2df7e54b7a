// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// verdicts answers with what the detector says of every GPU, GPU instance,
// process and workload:
//
//	{"status":"success","data":{"time":…,"driver":{"up":true,"reason":""},"devices":[{
//	  "labels":{"gpu":"0","uuid":"GPU-…"},"name":…,"up":true,"sample_time":…,"memory":{…},"verdict":{…},
//	  "instances":[…],"processes":[…],"workloads":[…]}]}}
//
// labels are those of the series of the same subject. Lists are in the order of
// State and never null, so one State always gives the same text. A number that is
// not known is null, and so is the verdict of what has not been seen by the
// detector.
//
// JSON has no infinity. oom says how to read seconds_to_oom, which the metrics
// would show as +Inf where oom is never:
//
//	unknown   not judged yet, or no capacity is known: seconds_to_oom is null
//	never     judged, and no leak contributes to it:   seconds_to_oom is null
//	foreseen  seconds_to_oom is a number, seconds_to_oom_lower and _upper its 90 %
//	          interval; an end of it that is null is open
func verdicts(state func() *collector.State) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		// The types below hold nothing that cannot be encoded, so an error is one of
		// the connection.
		_ = json.NewEncoder(w).Encode(envelope{Status: "success", Data: verdictsOf(state())})
	})
}

type (
	envelope struct {
		Status string       `json:"status"`
		Data   verdictsData `json:"data"`
	}
	verdictsData struct {
		Time    time.Time    `json:"time"`
		Driver  driverJSON   `json:"driver"`
		Devices []deviceJSON `json:"devices"`
	}
	driverJSON struct {
		Up     bool   `json:"up"`
		Reason string `json:"reason"`
	}
	deviceJSON struct {
		Labels       map[string]string `json:"labels"`
		Name         string            `json:"name"`
		Up           bool              `json:"up"`
		SampleTime   *time.Time        `json:"sample_time"`
		Memory       memoryJSON        `json:"memory"`
		Unattributed *uint64           `json:"unattributed_bytes"`
		domainJSON
		Instances []instanceJSON `json:"instances"`
		Processes []processJSON  `json:"processes"`
		Workloads []workloadJSON `json:"workloads"`
	}
	memoryJSON struct {
		Total    *uint64 `json:"total_bytes"`
		Used     *uint64 `json:"used_bytes"`
		Free     *uint64 `json:"free_bytes"`
		Reserved *uint64 `json:"reserved_bytes"`
	}
	// domainJSON is what a GPU and a GPU instance have in common.
	domainJSON struct {
		Attributed bool         `json:"attributed"`
		Headroom   *float64     `json:"oom_headroom_bytes"`
		Verdict    *verdictJSON `json:"verdict"`
	}
	instanceJSON struct {
		Labels map[string]string `json:"labels"`
		Memory memoryJSON        `json:"memory"`
		domainJSON
	}
	processJSON struct {
		Labels  map[string]string `json:"labels"`
		User    string            `json:"user"`
		Used    *uint64           `json:"memory_used_bytes"`
		Share   *float64          `json:"leak_share_ratio"`
		Verdict *verdictJSON      `json:"verdict"`
	}
	workloadJSON struct {
		Labels  map[string]string `json:"labels"`
		Used    uint64            `json:"memory_used_bytes"`
		Verdict *verdictJSON      `json:"verdict"`
	}
	verdictJSON struct {
		Judged     bool         `json:"judged"`
		Leak       bool         `json:"leak"`
		Confidence *float64     `json:"confidence"`
		Pattern    string       `json:"pattern"`
		Rate       *float64     `json:"leak_rate_bytes_per_second"`
		Leaked     *float64     `json:"leaked_bytes"`
		Since      *time.Time   `json:"leak_start"`
		OOM        string       `json:"oom"`
		Seconds    *float64     `json:"seconds_to_oom"`
		Lower      *float64     `json:"seconds_to_oom_lower"`
		Upper      *float64     `json:"seconds_to_oom_upper"`
		Trough     *float64     `json:"memory_trough_bytes"`
		Spikes     uint64       `json:"spikes_total"`
		Windows    []windowJSON `json:"windows"`
	}
	windowJSON struct {
		Window string   `json:"window"`
		Slope  *float64 `json:"slope_bytes_per_second"`
		R2     *float64 `json:"r2"`
		Spikes *float64 `json:"spike_count"`
		Fill   float64  `json:"fill_ratio"`
	}
)

func verdictsOf(s *collector.State) verdictsData {
	data := verdictsData{
		Time:    s.Time.UTC(),
		Driver:  driverJSON{Up: s.DriverReason == "", Reason: s.DriverReason},
		Devices: []deviceJSON{},
	}
	for _, d := range s.Devices {
		data.Devices = append(data.Devices, deviceOf(d, s.Windows))
	}
	return data
}

func deviceOf(d *collector.DeviceState, windows []string) deviceJSON {
	device := func() map[string]string {
		return map[string]string{"gpu": strconv.Itoa(d.Info.Index), "uuid": d.Info.UUID}
	}
	j := deviceJSON{
		Labels: device(), Name: d.Info.Name, Up: d.Up, SampleTime: momentOf(d.SampleTime),
		Instances: []instanceJSON{}, Processes: []processJSON{}, Workloads: []workloadJSON{},
	}
	if !d.Up {
		return j // nothing else means anything
	}
	j.Memory, j.Unattributed = memoryOf(d.Memory), known(d.Unattributed)
	j.domainJSON = domainOf(&d.Judgement, windows)
	for i := range d.Instances {
		in := &d.Instances[i]
		labels := device()
		labels["gpu_instance"], labels["profile"] = strconv.FormatUint(uint64(in.ID), 10), in.Profile
		j.Instances = append(j.Instances, instanceJSON{labels, memoryOf(in.Memory), domainOf(&in.Judgement, windows)})
	}
	for i := range d.Processes {
		p := &d.Processes[i]
		j.Processes = append(j.Processes, processOf(device(), p, windows))
	}
	for i := range d.Workloads {
		w := &d.Workloads[i]
		labels := device()
		labels["gpu_instance"] = instanceName(w.Instance)
		labels["namespace"], labels["pod"], labels["slurm_job"] = w.Namespace, w.Pod, w.SlurmJob
		j.Workloads = append(j.Workloads, workloadJSON{labels, w.Used, verdictOf(&w.Verdict, windows)})
	}
	return j
}

func processOf(labels map[string]string, p *collector.ProcessState, windows []string) processJSON {
	o := ownerOf(p)
	labels["gpu_instance"], labels["pid"] = instanceName(p.Instance), strconv.FormatUint(uint64(p.ID.PID), 10)
	labels["process"], labels["namespace"], labels["pod"] = o.Process, o.Namespace, o.Pod
	labels["container"], labels["slurm_job"] = o.Container, o.SlurmJob
	return processJSON{labels, o.User, known(p.Used), finite(p.Share), verdictOf(&p.Verdict, windows)}
}

func ownerOf(p *collector.ProcessState) *gpu.Owner {
	if p.Owner == nil {
		return &gpu.Owner{}
	}
	return p.Owner
}

func instanceName(id gpu.Opt[uint32]) string {
	if !id.OK {
		return ""
	}
	return strconv.FormatUint(uint64(id.V), 10)
}

func memoryOf(m gpu.Memory) memoryJSON {
	return memoryJSON{known(m.Total), known(m.Used), known(m.Free), known(m.Reserved)}
}

func domainOf(j *detector.Judgement[gpu.ProcessID], windows []string) domainJSON {
	if j.T == 0 { // no frame yet
		return domainJSON{}
	}
	return domainJSON{j.Attributed, finite(j.Headroom), verdictOf(&j.Device, windows)}
}

func verdictOf(v *detector.Verdict, windows []string) *verdictJSON {
	j := &verdictJSON{Judged: v.Judged, OOM: "unknown", Trough: finite(v.Trough), Spikes: v.SpikesTotal, Windows: []windowJSON{}}
	for i, name := range windows[:min(len(windows), len(v.Windows))] {
		f := &v.Windows[i]
		j.Windows = append(j.Windows, windowJSON{name, finite(f.Slope), finite(f.R2), finite(f.Spikes), f.Fill})
	}
	if !v.Judged {
		return j
	}
	j.Leak, j.Confidence, j.Pattern = v.Leak, finite(detector.Of(v.Confidence)), v.Pattern.String()
	if v.Leak {
		j.Rate, j.Leaked, j.Since = finite(v.Rate), finite(v.Leaked), momentOf(sinceOf(v))
	}
	switch {
	case !v.SecondsToOOM.OK:
	case math.IsInf(v.SecondsToOOM.V, 1):
		j.OOM = "never"
	default:
		j.OOM, j.Seconds, j.Lower, j.Upper = "foreseen", finite(v.SecondsToOOM), finite(v.Lower), finite(v.Upper)
	}
	return j
}

// sinceOf returns when the leak began.
func sinceOf(v *detector.Verdict) time.Time { return time.Unix(0, int64(v.Since)) }

func momentOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func known(o gpu.Opt[uint64]) *uint64 {
	if !o.OK {
		return nil
	}
	return &o.V
}

// finite returns nil for what is absent and for what JSON cannot write.
func finite(v detector.Value) *float64 {
	if !v.OK || math.IsNaN(v.V) || math.IsInf(v.V, 0) {
		return nil
	}
	return &v.V
}
