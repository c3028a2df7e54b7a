// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// receiver prints what a pager or a tracker would have got.
type receiver struct {
	mu  sync.Mutex
	out io.Writer
}

// notification is what Alertmanager sends to a webhook, as its documentation has it.
type notification struct {
	Receiver string `json:"receiver"`
	Alerts   []struct {
		Status      string            `json:"status"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"alerts"`
}

// ServeHTTP implements http.Handler.
func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	var n notification
	if err := json.NewDecoder(io.LimitReader(request.Body, 16<<20)).Decode(&n); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range n.Alerts {
		fmt.Fprintf(r.out, "── %s  %s  %s  %s\n   %s\n", time.Now().Format(time.TimeOnly), strings.ToUpper(strings.TrimSuffix(n.Receiver, "s")), a.Status, a.Labels["alertname"], a.Annotations["summary"])
		for _, text := range []string{a.Annotations["description"], a.Annotations["predict_url"], a.Annotations["runbook_url"]} {
			if text != "" {
				fmt.Fprintf(r.out, "   %s\n", strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n   "))
			}
		}
		fmt.Fprintln(r.out)
	}
}
