// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detectorconfig

import (
	"reflect"
	"strings"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// TestThresholds holds the table against the fields of detector.Config: each
// number is there once, and its default is one that its flag takes.
func TestThresholds(t *testing.T) {
	seen := map[string]bool{}
	changed := func(c detector.Config) (fields []string) {
		got, want := reflect.ValueOf(c), reflect.ValueOf(detector.Config{})
		for i := range got.NumField() {
			if !reflect.DeepEqual(got.Field(i).Interface(), want.Field(i).Interface()) {
				fields = append(fields, got.Type().Field(i).Name)
			}
		}
		return fields
	}
	for _, th := range thresholds {
		def := detector.DefaultConfig()
		var set detector.Config
		if err := th.Value(&set).Set(th.Default()); err != nil {
			t.Error(err)
		}
		fields := changed(set)
		if len(fields) != 1 || seen[fields[0]] {
			t.Fatalf("%s sets %v", th.Name, fields)
		}
		seen[fields[0]] = true
		if got, want := reflect.ValueOf(set).FieldByName(fields[0]).Interface(), reflect.ValueOf(def).FieldByName(fields[0]).Interface(); got != want {
			t.Errorf("--%s=%s is %v, want %v", th.Flag(), th.Default(), got, want)
		}
		if !strings.HasSuffix(th.Help, ".") || !strings.HasSuffix(th.Reason, ".") || strings.ContainsRune(th.Key(), '-') {
			t.Errorf("%s: %s", th.Key(), th.Help)
		}
	}
	seen["Windows"], seen["Mute"], seen["Without"] = true, true, true // these are no thresholds
	for f := range reflect.TypeFor[detector.Config]().Fields() {
		if !seen[f.Name] {
			t.Errorf("there is no threshold %s", f.Name)
		}
	}
}
