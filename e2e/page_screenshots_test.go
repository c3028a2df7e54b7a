// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// It waits for an hour of simulated time, and shows nothing that the tests of the page do not: make
// screenshots runs it, and no other target.
//go:build e2e && nightly && screenshots

package e2e

import (
	"fmt"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// TestScreenshots makes the pictures of the documentation: a GPU of the simulated node, an hour after its leaks
// began. Times and process numbers differ from run to run.
func TestScreenshots(t *testing.T) {
	t.Parallel()
	p := harness.StartExporter(t, harness.Options{Args: []string{"--source=sim:node", "--source.speed=600"}})
	began := regexp.MustCompile(`Kept</dt><dd>[^(]*\(1\D*h`)
	harness.Eventually(t, hang, func() error {
		page, err := harness.Get(p.URL + "/predict")
		if n := len(began.FindAll(page, -1)); err == nil && n < 4 {
			err = fmt.Errorf("%d leaks began an hour ago", n)
		}
		return err
	})
	b := newBrowser(t)
	for name, like := range map[string]struct {
		width, height int64
		theme         string
	}{"predict.png": {1100, 745, "light"}, "predict-dark.png": {1100, 745, "dark"}, "predict-phone.png": {390, 844, "light"}} {
		b.show(p.URL+"/predict/gpu-5", like.width, like.height, like.theme)
		picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
		harness.Must(t, err)
		if len(picture) < 10<<10 || len(picture) > 180<<10 {
			t.Errorf("%s has %d bytes", name, len(picture))
		}
		harness.WriteFile(t, filepath.Join(harness.Root(), "docs", name), string(picture))
	}
}
