// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/humanize"
	"github.com/gpuleak/gpu_leak_exporter/collector"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// verdicts answers with what the detector says of every GPU, GPU instance,
// process and workload:
//
//	{"status":"success","data":{"time":…,"driver":{"up":true,"reason":""},"devices":[{
//	  "labels":{"gpu":"0","uuid":"GPU-…"},"name":…,"up":true,"sample_time":…,"memory":{…},"verdict":{…},
//	  "instances":[…],"processes":[…],"workloads":[…],"unreleased":[…]}]}}
//
// labels are those of the series of the same subject. Lists are in the order of
// State and never null, so one State always gives the same text. A number that is
// not known is null, and so is the verdict of what has not been seen by the
// detector. A verdict that is muted is never judged: a rule of --detector.config
// says so. unreleased is memory that stayed after its process had ended, with the
// labels that the process had.
//
// JSON has no infinity. oom says how to read seconds_to_oom, which the metrics
// would show as +Inf where oom is never:
//
//	unknown   muted, not judged yet, or no capacity is known: seconds_to_oom is null
//	never     judged, and no leak contributes to it: seconds_to_oom is null
//	foreseen  seconds_to_oom is a number, seconds_to_oom_lower and _upper its 90 %
//	          interval; an end of it that is null is open
//
// seconds_to_full is null where the memory does not grow; its upper end is null where
// the growth may end before. withheld is the reason for which growth is not called a
// leak yet, and null where nothing is suspected.
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
		Instances  []instanceJSON   `json:"instances"`
		Processes  []processJSON    `json:"processes"`
		Workloads  []workloadJSON   `json:"workloads"`
		Unreleased []unreleasedJSON `json:"unreleased"`
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
		Grows   *string           `json:"grows"`
		Verdict *verdictJSON      `json:"verdict"`
	}
	workloadJSON struct {
		Labels  map[string]string `json:"labels"`
		Used    uint64            `json:"memory_used_bytes"`
		Verdict *verdictJSON      `json:"verdict"`
	}
	unreleasedJSON struct {
		Labels map[string]string `json:"labels"`
		User   string            `json:"user"`
		Used   uint64            `json:"memory_used_bytes"`
		Ended  *time.Time        `json:"ended"`
	}
	verdictJSON struct {
		Judged     bool         `json:"judged"`
		Muted      bool         `json:"muted"`
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
		Full       *float64     `json:"seconds_to_full"`
		FullLower  *float64     `json:"seconds_to_full_lower"`
		FullUpper  *float64     `json:"seconds_to_full_upper"`
		Withheld   *string      `json:"withheld"`
		WithheldS  *float64     `json:"withheld_seconds"`
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
		data.Devices = append(data.Devices, deviceOf(d))
	}
	return data
}

func deviceOf(d *collector.DeviceState) deviceJSON {
	device := func() map[string]string {
		return map[string]string{"gpu": strconv.Itoa(d.Info.Index), "uuid": d.Info.UUID}
	}
	j := deviceJSON{
		Labels: device(), Name: d.Info.Name, Up: d.Up, SampleTime: momentOf(d.SampleTime),
		Instances: []instanceJSON{}, Processes: []processJSON{}, Workloads: []workloadJSON{}, Unreleased: []unreleasedJSON{},
	}
	if !d.Up {
		return j // nothing else means anything
	}
	j.Memory, j.Unattributed = memoryOf(d.Memory), known(d.Unattributed)
	j.domainJSON = domainOf(&d.Judgement)
	for i := range d.Instances {
		in := &d.Instances[i]
		labels := device()
		labels["gpu_instance"], labels["profile"] = strconv.FormatUint(uint64(in.ID), 10), in.Profile
		j.Instances = append(j.Instances, instanceJSON{labels, memoryOf(in.Memory), domainOf(&in.Judgement)})
	}
	for i := range d.Processes {
		p := &d.Processes[i]
		j.Processes = append(j.Processes, processOf(device(), p))
	}
	for i := range d.Workloads {
		w := &d.Workloads[i]
		labels := device()
		labels["gpu_instance"] = instanceName(w.Instance)
		labels["namespace"], labels["pod"], labels["slurm_job"] = w.Namespace, w.Pod, w.SlurmJob
		j.Workloads = append(j.Workloads, workloadJSON{labels, w.Used, verdictOf(&w.Verdict)})
	}
	for i := range d.Unreleased {
		u := &d.Unreleased[i]
		labels, o := device(), ownerOf(u.Owner)
		nameProcess(labels, u.Instance, u.ID, o)
		j.Unreleased = append(j.Unreleased, unreleasedJSON{labels, o.User, u.Used, momentOf(steadyTime(u.Since))})
	}
	return j
}

func processOf(labels map[string]string, p *collector.ProcessState) processJSON {
	o := ownerOf(p.Owner)
	nameProcess(labels, p.Instance, p.ID, o)
	j := processJSON{labels, o.User, known(p.Used), finite(p.Share), nil, verdictOf(&p.Verdict)}
	if grows := p.Grows.String(); grows != "" {
		j.Grows = &grows
	}
	return j
}

// nameProcess adds the labels of a process.
func nameProcess(labels map[string]string, instance gpu.Opt[uint32], id gpu.ProcessID, o *gpu.Owner) {
	labels["gpu_instance"], labels["pid"] = instanceName(instance), strconv.FormatUint(uint64(id.PID), 10)
	labels["process"], labels["namespace"], labels["pod"] = o.Process, o.Namespace, o.Pod
	labels["container"], labels["slurm_job"] = o.Container, o.SlurmJob
}

// ownerOf returns the owner of a process, an empty one for nil.
func ownerOf(o *gpu.Owner) *gpu.Owner {
	if o == nil {
		return &gpu.Owner{}
	}
	return o
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

func domainOf(j *detector.Judgement[gpu.ProcessID]) domainJSON {
	if j.T == 0 { // no frame yet
		return domainJSON{}
	}
	return domainJSON{j.Attributed, finite(j.Headroom), verdictOf(&j.Device)}
}

func verdictOf(v *detector.Verdict) *verdictJSON {
	j := &verdictJSON{
		Judged: v.Judged, Muted: v.Muted, OOM: "unknown", Trough: finite(v.Trough), Spikes: v.SpikesTotal, Windows: []windowJSON{},
		Full: finite(v.SecondsToFull), FullLower: finite(v.FullLower), FullUpper: finite(v.FullUpper),
	}
	for i := range v.Windows {
		if f := &v.Windows[i]; f.Span > 0 {
			j.Windows = append(j.Windows, windowJSON{humanize.FormatDuration(f.Span), finite(f.Slope), finite(f.R2), finite(f.Spikes), f.Fill})
		}
	}
	if !v.Judged {
		return j
	}
	if why := v.Withheld.String(); why != "" {
		j.Withheld, j.WithheldS = &why, finite(detector.Of(v.WithheldFor.Seconds()))
	}
	j.Leak, j.Confidence, j.Pattern = v.Leak, finite(detector.Of(v.Confidence)), v.Pattern.String()
	if v.Leak {
		j.Rate, j.Leaked, j.Since = finite(v.Rate), finite(v.Leaked), momentOf(steadyTime(v.Since))
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

// steadyTime returns a moment on the clock of detector.Frame.T as a time.
func steadyTime(t time.Duration) time.Time { return time.Unix(0, int64(t)) }

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
