// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/go-kit/log"
	"github.com/prometheus/common/config"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

// TestLoad reads no file, the example, and a file with other values.
func TestLoad(t *testing.T) {
	def := Config{
		Query: used, Interval: 15 * time.Second, History: 6 * time.Hour, MaxAge: 5 * time.Minute,
		Labels: []string{"instance", "node", "Hostname"}, HTTP: config.DefaultHTTPClientConfig,
	}
	if got, err := Load("", 15*time.Second); err != nil || !reflect.DeepEqual(got, def) {
		t.Errorf("%+v, %v, want %+v", got, err, def)
	}
	const example = "../../../examples/fleet.yml"
	want := def
	want.file = example
	want.HTTP.BasicAuth = &config.BasicAuth{Username: "gpu_leak_exporter", PasswordFile: "../../../examples/password"}
	if got, err := Load(example, 15*time.Second); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	path := filepath.Join(t.TempDir(), "fleet.yml")
	testkit.Write(t, path, "query: x\ncapacity_query: y\nunit: MiB\nhistory: 0s\nmax_age: 1m\nlabels: [instance]\nfollow_redirects: false\n")
	want = Config{
		Query: "x", Capacity: "y", Unit: 1 << 20, Interval: 15 * time.Second, MaxAge: time.Minute, Labels: []string{"instance"},
		HTTP: config.HTTPClientConfig{EnableHTTP2: true}, file: path,
	}
	if got, err := Load(path, 15*time.Second); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	testkit.Write(t, path, "# Nothing is set.\n")
	if got, err := Load(path, 15*time.Second); err != nil || got.Query != used || got.History != def.History {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestLoadRefuses has each mistake in a file be told with the file, and what to do.
func TestLoadRefuses(t *testing.T) {
	const known = "; known are query, capacity_query, unit, history, max_age, labels, and what http_config of Prometheus has"
	for text, want := range map[string]string{
		"query: x\nquerry: y\n":             "yaml: unmarshal errors:\n  line 2: field querry not found in type fleet.file" + known,
		"history: 6h\nhistory: 7h\n":        "yaml: unmarshal errors:\n  line 2: mapping key \"history\" already defined at line 1" + known,
		"history: long\n":                   `not a valid duration string: "long"` + known,
		"a: [\n":                            "yaml: line 1: did not find expected node content" + known,
		"basic_auth: {user: x}\n":           "yaml: unmarshal errors:\n  line 1: field user not found in type config.plain" + known,
		"bearer_token: x\nbasic_auth: {}\n": "at most one of basic_auth, oauth2, bearer_token & bearer_token_file must be configured",
		"query: ' '\n":                      "query must be PromQL, such as DCGM_FI_DEV_FB_USED or nvidia_smi_memory_used_bytes",
		"unit: GiB\n":                       "unit: GiB: choose one of auto, B, MiB",
		"history: 8d\n":                     "history: 8d: must be between 0s and 1w",
		"query: a\n---\nmax_age: 1m\n":      "has more than one document",
		"max_age: 20s\n":                    "max_age: 20s: must be between 30s and 1h",
		"max_age: 2h\n":                     "max_age: 2h: must be between 30s and 1h",
		"max_age: 40s\n":                    "max_age: 40s: must be twice --sample.interval=30s or more",
		"labels: []\n":                      "labels: there must be between 1 and 4",
		"labels: [a, b, c, d, e]\n":         "labels: there must be between 1 and 4",
		"labels: [a-b]\n":                   `labels: "a-b" is not the name of a label, such as instance`,
		"labels: [a, b, a]\n":               "labels: a is given twice",
	} {
		path := filepath.Join(t.TempDir(), "fleet.yml")
		testkit.Write(t, path, text)
		if _, err := Load(path, 30*time.Second); err == nil || err.Error() != "--source.config="+path+": "+want {
			t.Errorf("%q: %v\nwant %s", text, err, want)
		}
	}
}

// TestOpen asks a server that wants the user and the password of the file.
func TestOpen(t *testing.T) {
	asked := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		select {
		case asked <- user + " " + password + " " + r.FormValue("query") + r.FormValue("time"):
		default:
		}
		fmt.Fprintf(w, `{"status":"success","infos":["i"],"data":{"resultType":"matrix","result":[{"metric":{"UUID":"GPU-1"},"values":[[%d.5,"7"]]}]}}`, time.Now().Unix()-1)
	}))
	defer server.Close()
	dir := t.TempDir()
	testkit.Write(t, filepath.Join(dir, "secret"), "hunter2")
	testkit.Write(t, filepath.Join(dir, "fleet.yml"), "basic_auth: {username: me, password_file: secret}\nhistory: 0s\n")
	cfg, err := Load(filepath.Join(dir, "fleet.yml"), time.Minute)
	testkit.Must(t, err)
	cfg.Logger = log.NewNopLogger()
	s, err := Open(server.URL, cfg)
	testkit.Must(t, err)
	defer s.Close()
	testkit.Equal(t, <-asked, "me hunter2 "+used+"[300000ms]", "asked")
	var devices []gpu.Device
	for len(devices) == 0 {
		devices, _ = s.Devices(t.Context())
	}
	if sample, err := devices[0].Read(t.Context()); err != nil || sample.Memory.Used.V != 7<<20 || sample.T%time.Second != 500*time.Millisecond {
		t.Errorf("%+v, %v", sample, err)
	}
}

func TestShard(t *testing.T) {
	var s Shard
	if err := s.Set("2/3"); err != nil || s != (Shard{Index: 2, Of: 3}) {
		t.Errorf("%+v, %v", s, err)
	}
	for _, text := range []string{"", "3", "3/3", "-1/3", "0/0", "a/b", "1/2/3"} {
		if err := s.Set(text); err == nil {
			t.Errorf("%q: %+v", text, s)
		}
	}
}
