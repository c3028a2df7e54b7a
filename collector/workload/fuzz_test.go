// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func FuzzParseJobs(f *testing.F) {
	for _, file := range []string{"", "1", "17 18\n\n\t19\r\n17\n", "1\x00\xff\u2028\u202e2", "123_[1-4%2]\n"} {
		f.Add([]byte(file))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		jobs := parseJobs(file)
		if len(jobs) > maxJobsPerGPU {
			t.Errorf("%d jobs", len(jobs))
		}
		for i, job := range jobs {
			checkLabel(t, job, maxLabel)
			if job == "" || slices.Contains(jobs[:i], job) {
				t.Errorf("%q in %q", job, jobs)
			}
		}
		// Jobs that follow change nothing before them.
		if again := parseJobs(append(bytes.Clone(file), "\n1\n"...)); len(file) < 1024 && !slices.Equal(again[:min(len(again), len(jobs))], jobs) {
			t.Errorf("%q, and %q with one more", jobs, again)
		}
	})
}

func FuzzParsePasswd(f *testing.F) {
	f.Add("alice:x:1000:1000::/home/alice:/bin/bash\n+::::::\n")
	f.Fuzz(func(t *testing.T, file string) {
		for uid, name := range parsePasswd(file) {
			if name == "" || !strings.Contains(file, name+":") {
				t.Errorf("user %d is %q", uid, name)
			}
		}
	})
}

func FuzzAllottedDevice(f *testing.F) {
	for _, id := range []string{
		uuidA, uuidA + "::3", migA, "MIG-" + uuidA + "/7/0", "nvidia0", "nvidia0/gi1", "nvidia0/vgpu2", "nvidia7/gi13/vgpu47",
		"gpu-0", "gpu-0-mig-1g10gb-19-2", uuidA + "-3", "channel0", "::",
	} {
		f.Add("nvidia.com/gpu", id)
		f.Add("gpu.nvidia.com", id)
		f.Add("k8s.gpu.nvidia.com/claim="+id, id)
	}
	f.Fuzz(func(t *testing.T, name, id string) {
		device := pluginDevice(name, id)
		if !strings.HasPrefix(id, device) || len(device) > len("MIG-"+uuidA+"/999/999") {
			t.Errorf("%q is %q", id, device)
		}
		equal(t, pluginDevice(name, device), device, "device of %q, again", id)
		devices := claimDevices(claim(name, id, name, id, "nvidia.com/gpu="+id))
		for _, d := range devices {
			equal(t, pluginDevice("nvidia.com/gpu", d), d, "claim of %q %q", name, id)
		}
		if m := pluginDevice("", id); m != "" && !slices.Contains(devices, m) {
			t.Errorf("%q is not %q in a claim, but %q", id, m, devices)
		}
	})
}
