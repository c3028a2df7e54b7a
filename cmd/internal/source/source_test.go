// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

func TestSetSpec(t *testing.T) {
	for spec, want := range map[string]Config{
		"nvml":                                {Kind: NVML},
		"sim:node":                            {Kind: Sim, Name: "node"},
		"replay:/a/b:c.csv":                   {Kind: Replay, Name: "/a/b:c.csv"},
		"prometheus:http://a:9090/prometheus": {Kind: Prometheus, Name: "http://a:9090/prometheus"},
	} {
		var c Config
		if err := c.SetSpec(spec); err != nil || !reflect.DeepEqual(c, want) || c.Spec() != spec {
			t.Errorf("%s: %+v, %v", spec, c, err)
		}
	}
	for _, spec := range []string{"", "nvml:", "nvml:0", "sim", "sim:", "replay", "replay:", "NVML", "x:y", "prometheus", "prometheus:", "prometheus:localhost:9090", "prometheus:http://a?b"} {
		var c Config
		if err := c.SetSpec(spec); err == nil {
			t.Errorf("%q: %+v", spec, c)
		}
	}
}

// TestSpecHasNoPassword shows a source as the log does.
func TestSpecHasNoPassword(t *testing.T) {
	var c Config
	if err := c.SetSpec("prometheus:https://me:hunter2@a/b"); err != nil || c.Spec() != "prometheus:https://a/b" {
		t.Errorf("%s, %v", c.Spec(), err)
	}
	if err := c.SetSpec("prometheus:https://me:hunter2@a:b"); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v", err)
	}
}

func TestOpen(t *testing.T) {
	src, err := Open(Config{Kind: Sim, Name: "crashloop", Speed: 1e9, Interval: 2 * time.Second})
	testkit.Must(t, err)
	defer src.Close()
	devices, err := src.Devices(t.Context())
	if err != nil || len(devices) != 1 {
		t.Fatal(devices, err)
	}
	var at [2]gpu.Sample
	for i := range at {
		if _, err := devices[0].Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		at[i], err = devices[0].Read(t.Context())
		testkit.Must(t, err)
	}
	testkit.Equal(t, at[1].T-at[0].T, 2*time.Second, "time between samples")
	if src, err := Open(Config{}); err == nil {
		t.Errorf("opened %v", src)
	}
}

// TestOwners asks for the owner of this very process.
func TestOwners(t *testing.T) {
	r, err := Owners(Config{ProcFS: "/proc"}, OwnersConfig{})
	testkit.Must(t, err)
	if o, done := r.Owner(gpu.ProcessID{PID: uint32(os.Getpid())}); o == nil || !done {
		t.Errorf("owner %v, %v", o, done)
	}
	if r, err := Owners(Config{ProcFS: "/none"}, OwnersConfig{}); err == nil {
		t.Errorf("no error but %v", r)
	}
}

func TestLimitFiles(t *testing.T) {
	var before, after syscall.Rlimit
	testkit.Must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
			t.Error(err)
		}
	}()
	limitFiles()
	testkit.Must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &after))
	if after.Cur != min(before.Cur, maxFiles) || after.Max != before.Max {
		t.Errorf("%+v became %+v", before, after)
	}
}
