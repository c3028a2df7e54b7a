// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package verdicts is what /api/v1/verdicts answers: what the detector says of GPUs and those who
// use them. The exporter writes it, and the tool reads it.
package verdicts

import "time"

type (
	// Envelope is the whole answer.
	Envelope[T any] struct {
		Status string `json:"status"`
		Data   T      `json:"data"`
	}
	// Data has every GPU, ordered by index. Numbers are nil where nothing is known.
	Data struct {
		Time     time.Time `json:"time"`
		Note     string    `json:"note,omitempty"` // says that the GPUs are not real; absent where they are
		Severity string    `json:"severity"`       // note, unknown, ticket or page
		Text     string    `json:"text"`           // sums up
		Findings []Finding `json:"findings"`       // the most urgent first
		Incident *Incident `json:"last_incident"`
		Driver   Driver    `json:"driver"`
		Devices  []Device  `json:"devices"`
	}
	// Finding is one thing that somebody should know, in words.
	Finding struct {
		Severity string `json:"severity"`
		Alert    string `json:"alert"` // that says the same; "" where there is none
		Text     string `json:"text"`
	}
	// Incident is the last program that ended while its memory was full, or with its GPU; nil if there was none.
	Incident struct {
		Time time.Time `json:"time"`
		Text string    `json:"text"`
	}
	// Driver says whether the driver answers, and why not.
	Driver struct {
		Up         bool   `json:"up"`
		Reason     string `json:"reason"`
		PCIDevices *int   `json:"pci_devices"` // NVIDIA's display controllers on the bus
	}
	// Device is a GPU. Where it is not Up the rest is empty.
	Device struct {
		Labels       map[string]string `json:"labels"`
		Title        string            `json:"title"` // as texts have it
		Name         string            `json:"name"`  // of the model
		Up           bool              `json:"up"`
		SampleTime   *time.Time        `json:"sample_time"`
		Memory       Memory            `json:"memory"`
		Unattributed *uint64           `json:"unattributed_bytes"`
		Domain
		Instances  []Part       `json:"instances"`
		Limited    []Part       `json:"limited"`
		Processes  []Process    `json:"processes"`
		Workloads  []Workload   `json:"workloads"`
		Unreleased []Unreleased `json:"unreleased"`
	}
	// Memory is in bytes.
	Memory struct {
		Total    *uint64 `json:"total_bytes"`
		Used     *uint64 `json:"used_bytes"`
		Free     *uint64 `json:"free_bytes"`
		Reserved *uint64 `json:"reserved_bytes"`
	}
	// Domain is what the memories of a GPU have in common.
	Domain struct {
		Attributed bool     `json:"attributed"`
		Headroom   *float64 `json:"oom_headroom_bytes"`
		Evidence   *string  `json:"evidence"` // of the end that is foretold: leak or filling
		Rate       *float64 `json:"oom_rate_bytes_per_second"`
		Page       bool     `json:"page"` // somebody should be woken
		Text       string   `json:"text"` // why it leaks, or does not
		Verdict    *Verdict `json:"verdict"`
	}
	// Part is a memory of its own on a GPU: a GPU instance in MIG mode, or the processes of a pod, job or control group with a limit,
	// which is its total.
	Part struct {
		Labels map[string]string `json:"labels"`
		Path   string            `json:"path,omitempty"` // below /predict, of the page on a limit, and of its card there; the others are found by their labels
		Memory Memory            `json:"memory"`
		Domain
	}
	// Process is one that has series of its own.
	Process struct {
		Labels  map[string]string `json:"labels"`
		User    string            `json:"user"`
		Start   uint64            `json:"start_ticks"` // from boot: field 22 of /proc/PID/stat; 0 if it is not known
		Used    *uint64           `json:"memory_used_bytes"`
		Share   *float64          `json:"leak_share_ratio"`
		Grows   *string           `json:"grows"`
		Verdict *Verdict          `json:"verdict"`
	}
	// Workload is a pod or job of several processes.
	Workload struct {
		Labels  map[string]string `json:"labels"`
		Used    uint64            `json:"memory_used_bytes"`
		Verdict *Verdict          `json:"verdict"`
	}
	// Unreleased is memory that stayed after its process had ended.
	Unreleased struct {
		Labels map[string]string `json:"labels"`
		User   string            `json:"user"`
		Used   uint64            `json:"memory_used_bytes"`
		Ended  *time.Time        `json:"ended"`
	}
	// Verdict is what the detector says of one memory series.
	Verdict struct {
		Judged     bool       `json:"judged"`
		Muted      bool       `json:"muted"`
		Text       string     `json:"text"` // the verdict in a word or three
		Leak       bool       `json:"leak"`
		Confidence *float64   `json:"confidence"`
		Pattern    string     `json:"pattern"`
		Shape      string     `json:"pattern_text"`
		Rate       *float64   `json:"leak_rate_bytes_per_second"`
		Leaked     *float64   `json:"leaked_bytes"`
		Since      *time.Time `json:"leak_start"`
		OOM        string     `json:"oom"`
		Seconds    *float64   `json:"seconds_to_oom"`
		Lower      *float64   `json:"seconds_to_oom_lower"`
		Upper      *float64   `json:"seconds_to_oom_upper"`
		Withheld   *string    `json:"withheld"`         // the reason for which growth is no leak yet
		WithheldS  *float64   `json:"withheld_seconds"` // nil where the growth would end before the memory is full
		Trough     *float64   `json:"memory_trough_bytes"`
		Spikes     uint64     `json:"spikes_total"`
		Windows    []Window   `json:"windows"`
	}
	// Site is a line of code that allocates what stays. The innermost of its frames is the first one.
	Site struct {
		Line   string   `json:"line"`
		Growth uint64   `json:"growth_bytes"`
		Live   uint64   `json:"live_bytes"`
		Blocks uint64   `json:"blocks"`
		UUID   string   `json:"uuid,omitempty"` // of the GPU, where the process knows it
		Frames []string `json:"frames"`
	}
	// Window has the plain statistics of a window.
	Window struct {
		Window string   `json:"window"`
		Slope  *float64 `json:"slope_bytes_per_second"`
		R2     *float64 `json:"r2"`
		Spikes *float64 `json:"spike_count"`
		Fill   float64  `json:"fill_ratio"`
	}
)
