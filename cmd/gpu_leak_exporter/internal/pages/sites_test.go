// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"bytes"
	"encoding/json"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts/fromstate"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

// goldenJSON compares an answer with a file of testdata, with a line for each of its values.
func goldenJSON(t *testing.T, name string, h http.Handler) {
	t.Helper()
	w := get(h, "/")
	testkit.Equal(t, w.Header().Get("Content-Type"), "application/json", "Content-Type")
	var pretty bytes.Buffer
	testkit.Must(t, json.Indent(&pretty, w.Body.Bytes(), "", "  "))
	testkit.Golden(t, filepath.Join("testdata", name), pretty.String())
}

// TestSites has the lines that allocate what leaks.
func TestSites(t *testing.T) {
	goldenJSON(t, "sites.json", NewSites(fixture))
	w := get(NewSites(func() *sampler.State { return &sampler.State{Time: epoch} }), SitesPath)
	testkit.Equal(t, w.Body.String(), `{"status":"success","data":{"time":"2026-03-01T12:00:00Z","processes":[]}}`+"\n", "the answer without a process")
}

// TestVerdicts is here, because the tests of gpuleaktool hold what it shows of these verdicts against the pages of the same
// state.
func TestVerdicts(t *testing.T) {
	state := found(fixture())
	state.Incidents = incidents()
	goldenJSON(t, "verdicts.json", fromstate.Handler(func() *sampler.State { return state }, ""))
}
