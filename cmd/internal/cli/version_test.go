// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"runtime/debug"
	"strings"
	"testing"

	"github.com/prometheus/common/version"
)

// keep puts the variables of the linker back after the test.
func keep(t *testing.T) {
	t.Helper()
	linked := []*string{&version.Version, &version.Revision, &version.Branch, &version.BuildUser, &version.BuildDate}
	for _, v := range linked {
		before := *v
		t.Cleanup(func() { *v = before })
		*v = ""
	}
}

func TestComplete(t *testing.T) {
	stamped := &debug.BuildInfo{
		Main:     debug.Module{Version: "v0.0.0-20260301120000-0123456789ab"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789ab"}, {Key: "vcs.time", Value: "2026-03-01T13:00:00+01:00"}},
	}
	for _, c := range []struct {
		name                  string
		linked                [3]string // version, branch, date
		info                  *debug.BuildInfo
		version, branch, date string
	}{
		{"what the linker was given is kept", [3]string{"1.2.3", "main", "20260101-00:00:00"}, stamped, "1.2.3", "main", "20260101-00:00:00"},
		{"go build in a clone", [3]string{}, stamped, "v0.0.0-20260301120000-0123456789ab", "unknown", "20260301-12:00:00"},
		{"go install of a version", [3]string{}, &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, "v1.2.3", "unknown", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			keep(t)
			version.Version, version.Branch, version.BuildDate = c.linked[0], c.linked[1], c.linked[2]
			complete(c.info)
			if version.Version != c.version || version.Branch != c.branch || version.BuildDate != c.date {
				t.Errorf("version %q, branch %q, date %q", version.Version, version.Branch, version.BuildDate)
			}
		})
	}
}

func TestVersionHasNoEmptyLine(t *testing.T) {
	keep(t)
	complete(&debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}})
	got := Version("x")
	for line := range strings.Lines(got) {
		if _, value, _ := strings.Cut(strings.TrimSpace(line), ":"); value == "" {
			t.Errorf("empty: %q", line)
		}
	}
	if !strings.HasPrefix(got, "x, version v1.2.3 (branch: unknown, revision: ") || !strings.Contains(got, "  go version:       go1.") || strings.Contains(got, "build") {
		t.Error(got)
	}
	version.BuildUser = "somebody"
	if got := Version("x"); !strings.Contains(got, "  build user:       somebody\n") {
		t.Error(got)
	}
}
