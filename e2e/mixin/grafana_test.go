// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && nightly

package mixin

import (
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	sdk "github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// TestDashboardsAreGrafanas holds the dashboards against Grafana's own schema of dashboards and panels, which knows every
// field that there is and those that have to be there.
func TestDashboardsAreGrafanas(t *testing.T) {
	plugins.RegisterDefaultPlugins()
	wrong := func(text string) string {
		var d sdk.Dashboard                                                              //nolint:staticcheck // the format that Grafana 10 to 12 read from files
		if err := d.UnmarshalJSONStrict([]byte(text)); err != nil && err.Error() != "" { // it may be a list of none
			return err.Error()
		}
		if err := d.Validate(); err != nil && err.Error() != "" {
			return err.Error()
		}
		return ""
	}
	for _, d := range readDashboards(t) {
		if says := wrong(d.text); says != "" {
			t.Errorf("%s: %s", d.file, says)
		}
		for old, mistake := range map[string]string{`"graphMode":`: `"graphMod":`, `"title":`: `"titel":`, `"type": "timeseries"`: `"type": "timeseries", "fill": 1`} {
			if strings.Contains(d.text, old) && wrong(strings.Replace(d.text, old, mistake, 1)) == "" {
				t.Errorf("%s: %s in place of %s is not found", d.file, mistake, old)
			}
		}
	}
}
