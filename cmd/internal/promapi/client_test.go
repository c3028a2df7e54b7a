// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package promapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"

	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

func TestIsTooMuch(t *testing.T) {
	for said, want := range map[string]bool{
		"query processing would load too many samples into memory in query execution":                                                   true,
		"cannot select more than -search.maxSamplesPerQuery=1000000000 samples; possible solutions: to reduce time range for the query": true,
		"the query exceeded the maximum number of chunks (limit: 2000000 chunks) (err-mimir-max-chunks-per-query)":                      true,
		"query timed out in expression evaluation":                                                                                      false,
	} {
		testkit.Equal(t, IsTooMuch(fmt.Errorf("x: %w", &v1.Error{Type: v1.ErrExec, Msg: said})), want, "%s: whether it is too much", said)
	}
	if !IsTooMuch(ErrAnswerTooLarge) {
		t.Error("what is refused here is not")
	}
}

// TestAnswers takes what a Prometheus says and nothing else.
func TestAnswers(t *testing.T) {
	point := func(at model.Time) model.SamplePair { return model.SamplePair{Timestamp: at} }
	for name, tt := range map[string]struct {
		value  model.Value
		matrix bool
		vector bool
	}{
		"nothing":            {},
		"a matrix":           {value: model.Matrix{{Values: []model.SamplePair{point(0), point(5)}}, {}}, matrix: true},
		"a null in it":       {value: model.Matrix{{}, nil}},
		"a vector":           {value: model.Vector{{}}, vector: true},
		"a null in a vector": {value: model.Vector{nil}},
		"a scalar":           {value: &model.Scalar{}, vector: true},
		"no scalar":          {value: (*model.Scalar)(nil)},
		"a string":           {value: &model.String{}},
	} {
		_, err := MatrixOf(tt.value)
		if _, is := errors.AsType[TypeError](err); is == tt.matrix {
			t.Errorf("%s: %v", name, err)
		}
		_, err = VectorOf(tt.value)
		if _, is := errors.AsType[TypeError](err); is == tt.vector {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCheckTimes takes times in order that a time.Duration can hold.
func TestCheckTimes(t *testing.T) {
	for name, tt := range map[string]struct {
		times []model.Time
		ok    bool
	}{
		"none":           {ok: true},
		"in order":       {times: []model.Time{0, 5}, ok: true},
		"one time twice": {times: []model.Time{5, 5}, ok: true},
		"back in time":   {times: []model.Time{5, 4}},
		"before 1970":    {times: []model.Time{-1, 4}},
		"after all time": {times: []model.Time{5, math.MaxInt64 / 1000}},
	} {
		series := &model.SampleStream{}
		for _, at := range tt.times {
			series.Values = append(series.Values, model.SamplePair{Timestamp: at})
		}
		err := CheckTimes(series)
		if _, is := errors.AsType[TypeError](err); is == tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEndless has a proxy that allows GET only, and answers one query without an end.
func TestEndless(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case r.FormValue("query") == "x":
			_, _ = io.WriteString(w, `{"warnings":["w"],"status":"success","data":{"result":[{"metric":{"a":"b"},"value":[1,"2"]}],"resultType":"vector"}}`)
		default:
			for text := bytes.Repeat([]byte{' '}, 1<<20); r.Context().Err() == nil; {
				_, _ = w.Write(text)
			}
		}
	}))
	defer server.Close()
	c, err := NewClient(ClientConfig{URL: server.URL, HTTP: config.DefaultHTTPClientConfig, Program: "test"})
	testkit.Must(t, err)
	value, warnings, _, err := c.Query(t.Context(), "x", time.Time{})
	if err != nil || value.String() != `{a="b"} => 2 @[1]` || !slices.Equal(warnings, v1.Warnings{"w"}) {
		t.Errorf("%v, %q, %v", value, warnings, err)
	}
	if _, _, _, err := c.Query(t.Context(), "y", time.Time{}); !IsTooMuch(err) || !strings.Contains(err.Error(), "longer than 64 MiB: ask for fewer series") {
		t.Errorf("without an end: %v", err)
	}
}

// TestNoSecrets has a server that wants a password: it is sent, and stands in no error.
func TestNoSecrets(t *testing.T) {
	var user, password string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ = r.BasicAuth()
		http.Error(w, "no", http.StatusForbidden)
	}))
	address := strings.Replace(server.URL, "http://", "http://me:hunter2@", 1)
	testkit.Equal(t, Redacted(address), server.URL, "address that is shown")
	c, err := NewClient(ClientConfig{URL: address, HTTP: config.DefaultHTTPClientConfig, Program: "test"})
	testkit.Must(t, err)
	ask := func() error {
		_, _, _, err := c.Query(t.Context(), "up", time.Now())
		return c.Refused(err)
	}
	if err := ask(); err == nil || strings.Contains(err.Error(), "hunter2") || user != "me" || password != "hunter2" {
		t.Errorf("%v; %s, %s", err, user, password)
	}
	server.Close()
	if err := ask(); err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "me:") {
		t.Errorf("%v", err)
	}
}

// TestNewClient refuses what cannot be asked, and says what to do, without a password.
func TestNewClient(t *testing.T) {
	both := filepath.Join(t.TempDir(), "http.yml")
	testkit.Write(t, both, "bearer_token: abc\n")
	for _, tt := range []struct{ url, file, want string }{
		{"localhost:9090", "", "is not an address such as http://localhost:9090"},
		{"ftp://a", "", "is not an address such as http://localhost:9090"},
		{"http://me:hunter2@host:port", "", "is not an address such as http://localhost:9090"},
		{"http://a?token=hunter2", "", "must end with the path: what follows ? or # is never sent"},
		{"http://a", "/none", "--http.config.file=/none: open /none: no such file or directory"},
		{"http://me:hunter2@a", both, "--file tells who asks, and the address does, too: take the user out of the address"},
	} {
		cfg, err := LoadHTTP(tt.file)
		if err == nil {
			_, err = NewClient(ClientConfig{URL: tt.url, HTTP: cfg, HTTPFlag: "--file", Program: "test"})
		}
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s, %s: %v; want %s", tt.url, tt.file, err, tt.want)
		}
	}
}
