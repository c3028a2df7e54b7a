// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// The variables of a container that limit the memory of its GPUs, which visibleDevices lists. Source: the READMEs of HAMi-core, and
// "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT" of NVIDIA's documentation of MPS.
const (
	visibleDevices = "NVIDIA_VISIBLE_DEVICES"
	hamiLimit      = "CUDA_DEVICE_MEMORY_LIMIT" // of all GPUs; with _0 behind it of the first one: 3000m
	mpsLimit       = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
)

// maxVariables bounds these variables of a container together, in bytes: a node has 16 GPUs, and each UUID 40 bytes.
const maxVariables = 2 << 10

// Limits returns the limits on the memory of a GPU that the variables of the owner's container set: HAMi's on all of its processes,
// that of MPS on each.
func Limits(o *gpu.Owner, uuid string) []gpu.Limit {
	if o.Variables == "" {
		return nil
	}
	values := map[string]string{}
	for line := range strings.Lines(o.Variables) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		values[name] = value
	}
	number := strconv.Itoa(slices.Index(strings.Split(values[visibleDevices], ","), uuid)) // -1 is none
	_, mps, _ := strings.Cut(","+strings.ReplaceAll(values[mpsLimit], " ", ""), ","+number+"=")
	mps, _, _ = strings.Cut(mps, ",")
	return slices.DeleteFunc([]gpu.Limit{
		{Source: gpu.LimitHAMi, Of: o.ContainerID, Bytes: parseLimit(cmp.Or(values[hamiLimit+"_"+number], values[hamiLimit]))},
		{Source: gpu.LimitMPS, Bytes: parseLimit(mps)},
	}, func(l gpu.Limit) bool { return l.Bytes == 0 })
}

// units are those of sizes, in lower case, as powers of 2.
var units = map[string]int{"": 0, "k": 10, "m": 20, "g": 30}

// parseLimit reads a size such as 3000m, 20G or 512MB. 0 is no limit, and what it is for other texts.
func parseLimit(text string) uint64 {
	text = strings.TrimSuffix(strings.ToLower(text), "b")
	digits := strings.TrimRight(text, "kmg")
	power, known := units[text[len(digits):]]
	n, err := strconv.ParseUint(digits, 10, 64-power)
	if err != nil || !known {
		return 0
	}
	return n << power
}

// environment returns the lines NAME=VALUE of the variables above, out of the specification of a container; "" if the runtime does not
// tell it. Other variables may hold secrets. An error is one of the call, which may succeed later.
func environment(ctx context.Context, socket, containerID string) (string, error) {
	var spec struct {
		RuntimeSpec struct {
			Process struct{ Env []string }
		}
	}
	answer, err := statusOf(ctx, socket, containerID)
	if code := status.Code(err); err != nil && !slices.Contains([]codes.Code{codes.NotFound, codes.PermissionDenied}, code) {
		return "", fmt.Errorf("ask the runtime at %s for the limits of a container: %w", socket, err)
	}
	_ = json.Unmarshal([]byte(answer.GetInfo()["info"]), &spec) // that of containerd and of CRI-O; others have none
	var kept strings.Builder
	for _, v := range spec.RuntimeSpec.Process.Env {
		name, _, _ := strings.Cut(v, "=")
		if (name == visibleDevices || name == mpsLimit || strings.HasPrefix(name, hamiLimit)) && kept.Len()+len(v) < maxVariables {
			kept.WriteString(v + "\n")
		}
	}
	return kept.String(), nil
}
