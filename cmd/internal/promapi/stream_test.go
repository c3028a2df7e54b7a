// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package promapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// newTestClient returns a client of a server that answers so.
func newTestClient(t *testing.T, handler http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	c, err := NewClient(ClientConfig{URL: server.URL, Program: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestMemoryOfAnAnswer has a server that answers with 8 MiB, and looks at the heap while it does: less than the text
// is live, and at the end what is kept.
func TestMemoryOfAnAnswer(t *testing.T) {
	const size, points = 8 << 20, 10_000
	live := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	text := []byte(`,{"metric":{"__name__":"DCGM_FI_DEV_FB_USED","UUID":"GPU-1"},"values":[[1,"0"]`)
	for i := range points {
		text = fmt.Appendf(text, `,[%d.123,"%d"]`, 1_700_000_000+i, 40_000_000_000+i)
	}
	text = append(text, "]}"...)
	var most uint64
	list := size / len(text)
	c := newTestClient(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"matrix","result":[{}`)
		for i := range list {
			_, _ = w.Write(text)
			if i%5 == 0 {
				most = max(most, live())
			}
		}
		_, _ = io.WriteString(w, "]}}")
	})
	before := live()
	value, _, _, err := c.QueryRange(t.Context(), "x", v1.Range{Step: time.Second})
	most, after := max(most, live())-before, live()-before
	matrix, _ := value.(model.Matrix)
	if err != nil || len(matrix) != list+1 || len(matrix[list].Values) != points+1 {
		t.Fatalf("%d of %d series: %v", len(matrix), list, err)
	}
	if kept := uint64(list * points * sampleSize); most > size || after > kept+kept/4+1<<20 {
		t.Errorf("of %d MiB %d MiB were live at most, and %d MiB at the end, with samples of %d MiB", size>>20, most>>20, after>>20, kept>>20)
	}
	runtime.KeepAlive(value)
}

// repeated reads the same text without an end.
type repeated struct {
	text string
	at   int
}

func (r *repeated) Read(b []byte) (int, error) {
	for n := 0; n < len(b); {
		k := copy(b[n:], r.text[r.at:])
		n, r.at = n+k, (r.at+k)%len(r.text)
	}
	return len(b), nil
}

// TestEndlessAnswers has texts without an end: each is refused at a bound, with what to do. The bounds are smaller than those of
// a Client, which TestEndlessAnswer of gpuleaktool has.
func TestEndlessAnswers(t *testing.T) {
	const first = `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"a":"b"},"values":[`
	for name, tt := range map[string]struct{ begin, text, want string }{
		"text":         {first + "]},", strings.Repeat(" ", 1<<16) + "{},", "longer than 256 MiB"},
		"samples":      {first, `[1,"2"],`, "value longer than 4 MiB"},
		"one sample":   {first + `[1,"`, "2", "value longer than 4 MiB"},
		"histograms":   {first + `],"histograms":[`, `[1,{"count":"1","sum":"2","buckets":[[0,"1","2","1"]]}],`, "value longer than 4 MiB"},
		"series":       {first + "]},", `{"metric":{"a":"b"},"values":[]},`, "holds series"},
		"empty series": {first + "]},", `{},`, "holds series"},
		"nulls":        {first + "]},", `null,`, "holds series"},
		"labels":       {first + "]},", `{"metric":{"a":"","b":"","c":"","d":"","e":"","f":"","g":"","h":"","i":"","j":""}},`, "holds series"},
		"one series":   {first + `]},{"metric":{`, `"a":"",`, "value longer than 4 MiB"},
		"a label":      {first + `]},{"metric":{"a":"`, "x", "value longer than 4 MiB"},
		"a name":       {first + `]},{"metric":{"`, "x", "value longer than 4 MiB"},
		"spaces":       {"", " ", "value longer than 4 MiB"},
		"a scalar":     {`{"data":{"result":[1,"`, "2", "value longer than 4 MiB"},
		"warnings":     {`{"status":"success","warnings":[`, `"a store is down",`, "value longer than 4 MiB"},
		"fields":       {`{"status":"success",`, `"a":"b",`, "holds series"},
		"depth":        {`{"a":`, "[", "exceeded max depth"},
	} {
		d := newDecoder(io.MultiReader(strings.NewReader(tt.begin), &repeated{text: tt.text}))
		d.in.left, d.in.most, d.room = 1<<20, 1<<18, 1<<17
		_, err := d.answer()
		if large := errors.Is(err, ErrAnswerTooLarge); err == nil || !strings.Contains(err.Error(), tt.want) || large != strings.Contains(err.Error(), "ask for fewer series, or for a shorter range") || large == (name == "depth") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAnswerErrors keeps apart what ends an answer.
func TestAnswerErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "bad_response: unexpected end of JSON input",
		"<html>":                                "bad_response: invalid character '<' looking for beginning of value",
		`{"data":{"result":[{"values":[[1,"2"]`: "bad_response: unexpected end of JSON input",
		`{"data":{"result":[]}}{}`:              "bad_response: something follows the answer",
		`{"data":{"result":[]}}]`:               "bad_response: invalid character ']' looking for beginning of value",
		`[]`:                                    "bad_response: there is [ where { begins",
		`{"data":{"result":{}}}`:                "bad_response: there is { where [ begins",
		`{"data":{"result":[1,"2","3"]}}`:       "bad_response: the result is neither a list of series nor a time and a value",
		`{"data":{"result":[{"values":[[1,2]]}]}}`:       `bad_response: [1,2] is no sample such as [1700000000.5,"42"]`,
		`{"data":{"result":[{"values":[[1]]}]}}`:         `bad_response: [1] is no sample such as [1700000000.5,"42"]`,
		`{"data":{"result":[{"values":[null]}]}}`:        `bad_response: null is no sample such as [1700000000.5,"42"]`,
		`{"data":{"result":[{"values":[[1,"2","3"]]}]}}`: `bad_response: [1,"2","3"] is no sample such as [1700000000.5,"42"]`,
		`{"data":{"result":[{"values":[[1,"x"]]}]}}`:     `bad_response: [1,"x"] is no sample such as [1700000000.5,"42"]`,
		`{"data":{"result":[{"metric":{"a":5}}]}}`:       "bad_response: json: cannot unmarshal number into Go struct field .Metric of type model.LabelValue",
	} {
		_, err := newDecoder(strings.NewReader(text)).answer()
		if _, ok := errors.AsType[*v1.Error](err); !ok || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if _, err := newDecoder(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("{}")))).answer(); !errors.Is(err, iotest.ErrTimeout) {
		t.Errorf("an error of the connection: %v", err)
	}
}

// TestGetFallback has a proxy that allows GET only, and an error that has no end.
func TestGetFallback(t *testing.T) {
	c := newTestClient(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
			_, _ = io.Copy(w, &repeated{text: "no "})
		case r.FormValue("query") == "x":
			_, _ = io.WriteString(w, `{"warnings":["w"],"status":"success","data":{"result":[{"metric":{"a":"b"},"value":[1,"2"]}],"resultType":"vector"}}`)
		}
	})
	value, warnings, _, err := c.Query(t.Context(), "x", time.Time{})
	if err != nil || value.String() != `{a="b"} => 2 @[1]` || !slices.Equal(warnings, v1.Warnings{"w"}) {
		t.Errorf("%v, %q, %v", value, warnings, err)
	}
}

// answers is a connection to a server that says this.
type answers string

func (text answers) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(string(text))), Request: r}, nil
}

// shown writes a value out; of histograms there is nothing but their number.
func shown(value model.Value) string {
	parts := []any{fmt.Sprintf("%T", value)}
	switch list := value.(type) {
	case model.Matrix:
		for _, s := range list {
			if s == nil {
				s = &model.SampleStream{Metric: model.Metric{"null": "null"}}
			}
			parts = append(parts, s.Metric, s.Values, len(s.Histograms))
		}
	case nil:
	default:
		parts = append(parts, value.String())
	}
	return fmt.Sprintln(parts...)
}

// decoded returns what encoding/json makes of a text as a whole; nil where it may read other fields than a decoder that streams.
func decoded(text string) model.Value {
	var whole struct {
		Data struct {
			ResultType string
			Result     json.RawMessage
		}
	}
	lower := strings.ToLower(text)
	if strings.Contains(text, `\u`) || strings.Count(lower, `"data"`) != 1 || strings.Count(lower, `"result"`) != 1 || json.Unmarshal([]byte(text), &whole) != nil {
		return nil
	}
	var matrix model.Matrix
	var vector model.Vector
	switch whole.Data.ResultType {
	case "matrix":
		if !strings.Contains(lower, `"value"`) && json.Unmarshal(whole.Data.Result, &matrix) == nil {
			return matrix
		}
	case "vector": // a null in it cannot be shown
		if !strings.Contains(lower, "null") && !strings.Contains(lower, `"values"`) && !strings.Contains(lower, `"histogram"`) && json.Unmarshal(whole.Data.Result, &vector) == nil {
			return vector
		}
	}
	return nil
}

// FuzzAnswer reads anything. What is kept stays within its bound, and is what encoding/json decodes from the text as a whole. What
// a server may say is read as client_golang does it.
func FuzzAnswer(f *testing.F) {
	const series = `{"metric":{"__name__":"a","b":"<c>"},"values":[[1700000000,"1"],[1700000000.5 , "-2.5e3"]]}`
	known := []string{
		`{"status":"success","data":{"resultType":"matrix","result":[` + series + `,` + series + `]}}`,
		`{"data":{"result":[` + series + `],"resultType":"matrix"},"isPartial":true,"status":"success","warnings":["a"],"infos":["b","c"]}`,
		`{"status":"success","data":{"resultType":"matrix","result":[{"values":[[1,"NaN"],[-1.5,"+Inf"],[3,"-Inf"],[9223372036854775807,"0x1p-2"]]},null]}}`,
		`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"histograms":[[1,{"count":"1","sum":"2","buckets":[[0,"1","2","1"]]}]]}]}}`,
		`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"a":"b"},"metric":{"c":"d"},"values":[[1,"1"]]}]}}`,
		`{"status":"success","data":{"resultType":"matrix","result":null,"result":[` + series + `],"result":[]}}`,
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":"b"},"value":[1,"2"]},{}]},"data":{"resultType":"vector","result":[{"value":[1,"2"]}]}}`,
		`{"status":"success","data":{"resultType":"scalar","result":[1700000000.25,"7"],"stats":{"a":[{}]}}}`,
		`{"status":"success","data":{"resultType":"string","result":[1,"text"]}}`,
		`{"status":"error","errorType":"bad_data","error":"parse <error>","warnings":["w"]}`,
		`{"status":"success","data":{"resultType":"tensor","result":[]}}`,
		`{"status":"success","data":null}`, `{"status":"success"}`, `{}`, `null`, " {\n}\r\n\t", `{"status":"success","data":[]}`, `"text"`, `5`,
	}
	for _, text := range append(known, `{"data":{"resultType":"matrix","result":[{"values":[[1,"1"]],"values":[[2,"2"]],"metric":null}]}}`) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d := newDecoder(iotest.HalfReader(strings.NewReader(text)))
		d.room = 1 << 12
		if _, err := d.answer(); err == nil {
			size := 0
			for _, s := range d.series {
				if s != nil {
					size += sampleSize * (len(s.Values) + len(s.Histograms))
				}
			}
			if size > 1<<12 || d.room < 0 || !json.Valid([]byte(text)) {
				t.Fatalf("%d bytes of samples are kept", size)
			}
		}
		base, err := api.NewClient(api.Config{Address: "http://127.0.0.1", RoundTripper: answers(text)})
		if err != nil {
			t.Fatal(err)
		}
		stream := &streamingAPI{v1.NewAPI(&streamingClient{base, &http.Client{Transport: answers(text)}})}
		got, warnings, infos, err := stream.Query(t.Context(), "x", time.Time{})
		if slices.Contains(known, text) {
			want, wantWarnings, wantInfos, wantErr := v1.NewAPI(base).Query(t.Context(), "x", time.Time{})
			if (err == nil) != (wantErr == nil) || !slices.Equal(warnings, wantWarnings) || !slices.Equal(infos, wantInfos) || err == nil && shown(got) != shown(want) {
				t.Errorf("got %s %q %q %v, want %s %q %q %v", shown(got), warnings, infos, err, shown(want), wantWarnings, wantInfos, wantErr)
			}
		}
		if want := decoded(text); want != nil && err == nil && shown(got) != shown(want) {
			t.Errorf("got %s, want %s", shown(got), shown(want))
		}
	})
}
