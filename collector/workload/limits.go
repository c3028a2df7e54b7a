// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/hostfs"
)

// The variables of a container that limit the memory of its GPUs, which visibleDevices lists. Source: the READMEs of HAMi-core, and
// "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT" of NVIDIA's documentation of MPS.
const (
	visibleDevices = "NVIDIA_VISIBLE_DEVICES"
	hamiLimit      = "CUDA_DEVICE_MEMORY_LIMIT" // of all GPUs; with _0 behind it of the first one: 3000m
	mpsLimit       = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
)

// Limits returns the limits on the memory of a GPU that hold for a process. known is false while there may be more: the process was not
// looked up yet, or the container runtime has not answered. The error says which limit could not be read. Those that could be are there
// all the same.
func (r *Resolver) Limits(id gpu.ProcessID, on *gpu.Info) (limits []gpu.Limit, known bool, err error) {
	a := r.recall(id)
	known = a.done // before, its container may have no name
	if a.owner.ContainerID != "" && a.done {
		var variables string
		variables, known = r.containers.limits(a.owner.ContainerID)
		limits = limitsIn(variables, a.owner.Bounded(a.owner.ContainerID), on.UUID)
	}
	if a.group == "" || r.cfg.CgroupFS == "" {
		return limits, known, nil
	}
	d, ok, err := hostfs.ReadDmem(r.cfg.CgroupFS, a.group, on.PCIBusID)
	if err != nil {
		return limits, known, fmt.Errorf("reading the limit of a control group: %w", err)
	}
	if ok {
		limits = append(limits, gpu.Limit{Source: gpu.LimitDmem, Of: a.owner.Bounded(d.Group), Bytes: d.Max, Charged: gpu.Some(d.Current)})
	}
	return limits, known, nil
}

// environment returns the lines NAME=VALUE of the variables above, out of the specification of a container; "" if the runtime does not
// tell it. Other variables may hold secrets.
func environment(ctx context.Context, socket, containerID string) string {
	var spec struct {
		RuntimeSpec struct {
			Process struct{ Env []string }
		}
	}
	err := withSocket(ctx, socket, func(ctx context.Context, client *grpc.ClientConn) error {
		answer, err := runtimeapi.NewRuntimeServiceClient(client).ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: containerID, Verbose: true})
		if err != nil {
			return err
		}
		return json.Unmarshal([]byte(answer.GetInfo()["info"]), &spec) // that of containerd and of CRI-O
	})
	if err != nil {
		return ""
	}
	return strings.Join(slices.DeleteFunc(spec.RuntimeSpec.Process.Env, func(v string) bool {
		name, value, _ := strings.Cut(v, "=")
		return len(value) > maxCommand || name != visibleDevices && name != mpsLimit && !strings.HasPrefix(name, hamiLimit)
	}), "\n")
}

// limitsIn returns the limits that variables of a container set on a GPU: HAMi's on all of its processes, that of MPS on each.
func limitsIn(variables, of, uuid string) (limits []gpu.Limit) {
	values := map[string]string{}
	for line := range strings.Lines(variables) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		values[name] = value
	}
	number := strconv.Itoa(slices.Index(strings.Split(values[visibleDevices], ","), uuid)) // -1 is none
	if bytes, ok := parseLimit(cmp.Or(values[hamiLimit+"_"+number], values[hamiLimit])); ok {
		limits = append(limits, gpu.Limit{Source: gpu.LimitHAMi, Of: of, Bytes: bytes})
	}
	for part := range strings.SplitSeq(values[mpsLimit], ",") {
		device, size, _ := strings.Cut(strings.TrimSpace(part), "=")
		if bytes, ok := parseLimit(size); ok && device == number {
			limits = append(limits, gpu.Limit{Source: gpu.LimitMPS, Bytes: bytes})
		}
	}
	return limits
}

// parseLimit reads a size such as 3000m, 20G or 512MB, whose units are powers of 1,024. 0 is no limit.
func parseLimit(text string) (bytes uint64, ok bool) {
	number := strings.TrimRight(strings.ToLower(text), "b")
	unit := strings.IndexAny("kmg", number[max(0, len(number)-1):]) + 1
	if number == "" {
		return 0, false
	}
	if unit > 0 {
		number = number[:len(number)-1]
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if shift := 10 * unit; err == nil && n > 0 && n <= math.MaxUint64>>shift {
		return n << shift, true
	}
	return 0, false
}
