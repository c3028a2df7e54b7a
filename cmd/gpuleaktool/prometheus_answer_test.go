// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// readAnswer reads an answer and writes each of its samples.
func readAnswer(t *testing.T, text string, unit float64) (got []string, err error) {
	t.Helper()
	h, err := readPrometheusAnswer(t.Context(), "answer", strings.NewReader(text), unit)
	if err != nil {
		return nil, err
	}
	err = h.each(t.Context(), func(m *memory, s *gpu.Sample) error {
		got = append(got, fmt.Sprintf("%s %d %d/%d", m.labels, s.Time.Unix(), s.Memory.Used.V, s.Memory.Total.V))
		return nil
	})
	return got, err
}

func TestPrometheusAnswer(t *testing.T) {
	matrix := `[{"metric":{"__name__":"DCGM_FI_DEV_FB_USED","gpu":"0"},"values":[[1700000000,"1"],[1700000015.5,"2"],[1700000030,"NaN"]]},` +
		`{"metric":{"__name__":"DCGM_FI_DEV_FB_USED","gpu":"1"},"values":[]},` +
		`{"metric":{"__name__":"DCGM_FI_DEV_FB_TOTAL","gpu":"0"},"values":[[1700000000,"8"]],"histograms":[[1,{"count":"2"}]]}]`
	want := []string{"gpu=0 1700000000 1048576/8388608", "gpu=0 1700000015 2097152/8388608"}
	for name, text := range map[string]string{
		"query_range":  `{"status":"success","data":{"resultType":"matrix","result":` + matrix + `,"stats":{"a":[1]}}}`,
		"the data":     `{"resultType":"matrix","result":` + matrix + `}`,
		"promtool":     matrix,
		"by the shell": "DCGM_FI_DEV_FB_USED{gpu=\"0\"} =>\n1 @[1700000000]\n2 @[1700000015.5]\nDCGM_FI_DEV_FB_TOTAL{gpu=\"0\"} =>\n8 @[1700000000]\n",
	} {
		if !isPrometheusAnswer(text) {
			t.Errorf("%s: not recognised", name)
		}
		if got, err := readAnswer(t, text, 0); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v\ngot  %q\nwant %q", name, err, got, want)
		}
	}
	for _, text := range []string{`{"gpu_memory", gpu="0"} 1 1700000000`, `{gpu="0"} 1 1700000000`, "# TYPE a gauge\n", "timestamp, index\n", "{}", `{"format":1}`} {
		if isPrometheusAnswer(text) {
			t.Errorf("%q is taken for an answer", text)
		}
	}
	// A function takes the name away: the unit has to be given.
	if got, err := readAnswer(t, `[{"metric":{"gpu":"0"},"values":[[1700000000,"3"]]}]`, 1); err != nil || !slices.Equal(got, []string{"gpu=0 1700000000 3/0"}) {
		t.Errorf("without a name: %v, %q", err, got)
	}
}

func TestPrometheusAnswerErrors(t *testing.T) {
	for text, want := range map[string]string{
		`{"status":"success","data":{"resultType":"vector","result":[]}}`:     "the result is a vector, of one moment: ask /api/v1/query_range",
		`{"status":"error","errorType":"bad_data","error":"parse error"}`:     "Prometheus has answered with an error: parse error",
		`[{"metric":{},"value":[1,"2"]}]`:                                     "the result is of one moment",
		`{"status":"success","data":{"resultType":"matrix","result":[]}}`:     "answer: the answer has no series",
		`[{"metric":{"__name__":"DCGM_FI_DEV_FB_USED"},"values":[[1700000000`: "the file ends inside the answer",
		`[{"metric":{"__name__":"load"},"values":[[1700000000,"1"]]}]`:        "load does not tell its unit",
		`[{"metric":{"gpu":"0"},"values":[[1700000000,"1"]]}]`:                "answer: a metric without a name does not tell its unit: if it is used memory, give --unit=B",
		`[{"values":[[1700000000,"1"]]}]`:                                     "points without the labels",
		`[{"metric":{"__name__":"DCGM_FI_DEV_FB_USED"},"values":[[2,"1"]]}]`:  "cannot read the time stamp",
		`[{"metric":{"a":"` + strings.Repeat("x", 3<<20) + `"}}]`:             "a value is longer than",
		"a_bytes{} =>\nx @[1700000000]\n":                                     "answer:2: cannot read the value",
		"a_bytes{} =>\n1\n":                                                   "answer:2: cannot read \"1\" as a point",
	} {
		if _, err := readAnswer(t, text, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
}

// TestPartialAnswer judges an answer that is not whole, and says so on the standard error.
func TestPartialAnswer(t *testing.T) {
	const data = `"data":{"resultType":"matrix","result":[{"metric":{"__name__":"DCGM_FI_DEV_FB_USED","gpu":"0"},"values":[[1700000000,"1"],[1700000015,"1"]]}]}`
	const none = `"data":{"resultType":"matrix","result":[]}`
	const partial = ": the answer is partial: the server could not read some of the data, and that is not judged\n"
	for text, want := range map[string]string{
		`{"status":"success",` + data + `}`:                                             "",
		`{"status":"success","isPartial":false,"warnings":[],` + data + `}`:             "",
		`{"status":"success","warnings":null,"infos":["a"],` + data + `}`:               "",
		`{"status":"success","isPartial":true,` + data + `}`:                            "gpuleaktool: FILE" + partial,
		`{"isPartial":true,` + data + `}`:                                               "gpuleaktool: FILE" + partial,
		`{"status":"success",` + data + `,"warnings":["store a\nis away",{"b":["c"]}]}`: "gpuleaktool: FILE: the server warned: store a is away\n",
		`{"status":"success",` + data + `,"isPartial":true,"warnings":["a","a","b"]}`:   "gpuleaktool: FILE" + partial + "gpuleaktool: FILE: the server warned: a\ngpuleaktool: FILE: the server warned: b\n",
		`{"status":"success","warnings":["` + strings.Join(numbers(12), `","`) + `"],` + data + `}`: "gpuleaktool: FILE: the server warned: " +
			strings.Join(numbers(10), "\ngpuleaktool: FILE: the server warned: ") + "\ngpuleaktool: FILE: warnings of the server that are not shown: 2\n",
		`{"status":"success","isPartial":true,` + none + `}`: "gpuleaktool: error: FILE: the answer has no series: the answer is partial: the server could not read some of the data, and that is not judged; check the query and its range\n",
	} {
		path := filepath.Join(t.TempDir(), "answer.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var stderr strings.Builder
		run(t.Context(), []string{"backtest", path}, io.Discard, &stderr)
		if got := strings.ReplaceAll(stderr.String(), path, "FILE"); got != want {
			t.Errorf("%s\ngot  %q\nwant %q", text, got, want)
		}
	}
}

// numbers are the numbers from 1 to n.
func numbers(n int) (list []string) {
	for i := range n {
		list = append(list, strconv.Itoa(i+1))
	}
	return list
}

// FuzzPrometheusAnswer reads anything: it ends, and what is read is in the order of time.
func FuzzPrometheusAnswer(f *testing.F) {
	f.Add(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"a_bytes"},"values":[[1700000000,"1"]]}]}}`)
	f.Add("a_bytes{b=\"c\"} =>\n1 @[1700000000]\n")
	f.Fuzz(func(t *testing.T, text string) {
		isPrometheusAnswer(text)
		h, err := readPrometheusAnswer(t.Context(), "answer", strings.NewReader(text), 1)
		if err != nil {
			return
		}
		last := map[*memory]int64{}
		_ = h.each(context.Background(), func(m *memory, s *gpu.Sample) error {
			if before, ok := last[m]; ok && int64(s.T) <= before {
				t.Errorf("%d after %d", s.T, before)
			}
			last[m] = int64(s.T)
			return nil
		})
	})
}
