// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-kit/log"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpu_leak_exporter/internal/pages"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

const (
	muting   = "groups:\n- name: a\n  rules:\n  - match: ['{pod=\"a\"}']\n    mute: true\n"
	mistaken = "groups:\n- name: a\n  rules:\n  - match: ['{pod=\"a\"}']\n    mute: often\n  - mute: true\n"
)

// reloading is a reloader over a file, and whether the pod a is muted by what it
// has applied.
type reloading struct {
	*reloader
	file  string
	log   strings.Builder
	muted func() bool
}

func newReloading(t *testing.T, args ...string) *reloading {
	t.Helper()
	r := &reloading{file: filepath.Join(t.TempDir(), "rules.yml")}
	testkit.Write(t, r.file, muting)
	cfg := flagsOf(t, append(args, "--detector.config="+r.file)...)
	resolve := sampler.Resolver(cfg.rules.For)
	r.muted = func() bool { return resolve(map[string]string{"scope": "process", "pod": "a"}).Mute }
	r.reloader = newReloader(cfg, func(f sampler.Resolver) { resolve = f }, log.NewLogfmtLogger(&r.log))
	return r
}

func (r *reloading) reloadState() sampler.FileState {
	return *r.with(func() *sampler.State { return &sampler.State{} })().Reload
}

func TestReload(t *testing.T) {
	r := newReloading(t, "--web.enable-lifecycle")
	started := r.reloadState()
	if !r.muted() || !started.Success || started.Time.IsZero() {
		t.Errorf("at the start: muted %v, %+v", r.muted(), started)
	}

	testkit.Write(t, r.file, mistaken)
	w := request(r, http.MethodPost, pages.ReloadPath)
	want := r.file + ":5: mute: often: must be true or false\n" + r.file + ":6: the rule has no match: for all series write match: ['{}']\n"
	if w.Code != http.StatusInternalServerError || w.Body.String() != want {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
	if s := r.reloadState(); !r.muted() || s.Success || s.Time != started.Time {
		t.Errorf("after a bad file: muted %v, %+v", r.muted(), s)
	}
	if n := strings.Count(r.log.String(), "level=error"); n != 1 || !strings.Contains(r.log.String(), ":5: mute") {
		t.Errorf("%d errors in the log:\n%s", n, &r.log)
	}

	testkit.Must(t, os.Remove(r.file))
	if w := request(r, http.MethodPost, pages.ReloadPath); w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "no such file") || !r.muted() {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}

	testkit.Write(t, r.file, "groups: []")
	if w := request(r, http.MethodPost, pages.ReloadPath); w.Code != http.StatusOK || w.Body.String() != "The rules of "+r.file+" hold.\n" {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
	if s := r.reloadState(); r.muted() || !s.Success || !s.Time.After(started.Time) {
		t.Errorf("after a good file: muted %v, %+v", r.muted(), s)
	}
}

func TestReloadIsSwitchedOff(t *testing.T) {
	r := newReloading(t)
	testkit.Write(t, r.file, "groups: []")
	if w := request(r, http.MethodPost, pages.ReloadPath); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "--web.enable-lifecycle") ||
		strings.Count(w.Body.String(), "\n") != 1 {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
	if !r.muted() {
		t.Error("it was read all the same")
	}
}

func TestReloadWithoutFile(t *testing.T) {
	cfg := flagsOf(t, "--web.enable-lifecycle")
	r := newReloader(cfg, func(sampler.Resolver) { t.Error("there is nothing to apply") }, log.NewNopLogger())
	if w := request(r, http.MethodPost, pages.ReloadPath); w.Code != http.StatusOK {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
	if s := r.with(func() *sampler.State { return &sampler.State{} })(); s.Reload != nil {
		t.Errorf("%+v", s.Reload)
	}
}
