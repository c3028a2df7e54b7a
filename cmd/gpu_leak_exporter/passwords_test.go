// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPasswords guesses passwords of an exporter that listens twice. Who guesses has to wait, on all listeners; whose
// password was right before has not, from the same address.
func TestPasswords(t *testing.T) {
	file := filepath.Join(t.TempDir(), "web.yml")
	// The hash is that of "change me", from examples/web.
	const config = "basic_auth_users: {prometheus: $2a$10$vm9rxA.bZvcC8i9tUO8u9OXnig2Kf9XZQX9yBZWmw4T4uo5gpcCua}"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	r := startProgram(t, "--source=sim:healthy", "--web.config.file="+file, "--web.listen-address=127.0.0.1:0")
	var urls []string
	eventually(t, func() error {
		urls = nil
		for _, m := range listening.FindAllStringSubmatch(r.stderr.String(), -1) {
			urls = append(urls, "http://"+m[1]+"/metrics")
		}
		if len(urls) != 2 {
			return fmt.Errorf("it listens at %v", urls)
		}
		return nil
	})
	ask := func(url, password string) (int, http.Header) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if password != "" {
			req.SetBasicAuth("prometheus", password)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode, resp.Header
	}
	for _, url := range urls {
		if code, _ := ask(url, "change me"); code != http.StatusOK {
			t.Errorf("%d for the right password, want 200", code)
		}
		if code, _ := ask(url, ""); code != http.StatusUnauthorized {
			t.Errorf("%d without a password, want 401", code)
		}
	}
	// The first guess is checked. If the next one comes late it is, too, and the one after it has to wait for longer.
	for i := range 20 {
		code, header := ask(urls[i%2], fmt.Sprintf("guess %d", i))
		if i > 0 && code == http.StatusTooManyRequests {
			if header.Get("Retry-After") == "" {
				t.Error("it is not said for how long to wait")
			}
			break
		}
		if code != http.StatusUnauthorized || i == 19 {
			t.Fatalf("%d for guess %d", code, i)
		}
	}
	for _, url := range urls {
		if code, _ := ask(url, "change me"); code != http.StatusOK {
			t.Errorf("%d for the right password, want 200", code)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	if code := r.end(); code != exitOK || strings.Contains(r.stderr.String(), "cut off") {
		t.Errorf("exit code %d:\n%s", code, r.stderr)
	}
}
