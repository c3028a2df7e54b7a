// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package plain answers requests with a line of text.
package plain

import (
	"io"
	"net/http"
)

// Text answers with a status and a text, which ends in a newline then. The answer is not to be kept, because it
// says how things are now. A client that has gone is no error: the server notices by itself.
func Text(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text+"\n")
}
