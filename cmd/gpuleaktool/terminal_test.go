// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/watch"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

// hostile is a name that clears the screen, in two ways, turns the text around, and is no UTF-8.
const hostile = "evil\x1b[2J\u009b2J\u202e\x7f\xff"

// answeringRaw is a server that answers each request with these bytes, and then calls done.
func answeringRaw(t *testing.T, answer string, done func()) (url string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	ended := make(chan struct{})
	t.Cleanup(func() { _ = listener.Close(); <-ended })
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = io.WriteString(conn, answer)
			_ = conn.Close()
			done()
		}
	}()
	return "http://" + listener.Addr().String()
}

// withName is a server whose certificate is for that name.
func withName(t *testing.T, name string) (url string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testkit.Must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	testkit.Must(t, err)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
}

// hostileFiles writes files with hostile contents, the names of which are hostile too.
func hostileFiles(t *testing.T) (file func(name string) string) {
	t.Helper()
	dir := t.TempDir()
	file = func(name string) string { return filepath.Join(dir, hostile+name) }
	rising := strings.NewReplacer("serve", hostile, "GPU-00", "GPU-"+hostile)
	for name, text := range map[string]string{
		"apps.csv": rising.Replace(testkit.Read(t, "testdata/apps.csv")), "text": hostile, "json": `{"a":` + hostile, "om": "a_bytes{x=\"" + hostile + "\"} 5 " + hostile + "\n",
		"rules.yml": "groups:\n- name: \"a\\e[2J\\x9b2J\\u202e\"\n  rules:\n  - match: ['{gpu=\"0\"}']\n    leak_threshold: 0.9\n",
		"wrong.yml": "groups: [\"\\e[2J\\x9b2J\"", "http.yml": "\"\\e[2J\\x9b2J\": 1\n",
	} {
		testkit.Write(t, file(name), text)
	}
	return file
}

// TestTerminal has all that comes from elsewhere try to reach the terminal: what servers answer, their certificates, what is in
// files, their names, and arguments.
func TestTerminal(t *testing.T) {
	nothing := func() {}
	file := hostileFiles(t)
	device := `{"labels":{"gpu":"` + `\u001b\u009b\u202e` + `","pod":"\u001b\u009b"},"name":"\u001b\u009b","up":true,"verdict":{"judged":true,"leak":true,"pattern":"\u001b\u009b\u202e"}}`
	verdicts := answering(t, `{"status":"success","data":{"time":"2026-03-01T12:00:00Z","note":"\u001b\u009b","driver":{"up":true,"reason":"\u009b"},"devices":[`+device+`]}}`).URL
	status := answeringRaw(t, "HTTP/1.1 503 "+hostile+"\r\n\r\n", nothing)
	moved := answeringRaw(t, "HTTP/1.1 302 Found\r\nLocation: ://"+hostile+"\r\n\r\n", nothing)
	malformed := answeringRaw(t, hostile+"\r\n\r\n", nothing)
	body := answeringRaw(t, "HTTP/1.1 200 OK\r\n\r\n"+hostile, nothing)
	refusing := answeringRaw(t, "HTTP/1.1 400 "+hostile+"\r\nContent-Type: application/json\r\n\r\n{\"status\":\"error\",\"errorType\":\"\\u009b\",\"error\":\"\\u009b\\u202e\"}", nothing)
	named := withName(t, "evil\x1b[2J\x7f")
	for name, args := range map[string][]string{
		"status line": {"watch", "--once", status}, "status line, to a prolog": {"watch", "--once", "--fail-on=page", status},
		"redirect": {"watch", "--once", moved}, "no HTTP": {"watch", "--once", malformed}, "no JSON": {"watch", "--once", body},
		"certificate": {"watch", "--once", named}, "certificate of a Prometheus": {"backtest", "--prometheus.url=" + named},
		"verdicts": {"watch", "--once", verdicts}, "secret": {"watch", "--once", "--http.config.file=" + file("http.yml"), status},
		"Prometheus": {"backtest", "--prometheus.url=" + status}, "its body": {"backtest", "--prometheus.url=" + body}, "its error": {"backtest", "--prometheus.url=" + refusing},
		"recording": {"backtest", "--capacity=16GiB", file("apps.csv")}, "recording, all": {"backtest", "--output=json", file("apps.csv")},
		"page": {"backtest", "--output=html", file("apps.csv")}, "text": {"backtest", file("text")}, "unfinished": {"backtest", file("json")},
		"metric": {"backtest", file("om")}, "no file": {"backtest", file("none")}, "columns": {"backtest", "--columns=" + hostile, file("text")},
		"rules": {"check", "config", file("rules.yml")}, "wrong rules": {"check", "config", file("wrong.yml")}, "rules to judge by": {"backtest", "--detector.config=" + file("wrong.yml"), "x"},
		"recorded": {"record", "--source=sim:healthy", "--source.speed=inf", "--duration=10s", "--output=" + file("rec")}, "replayed": {"record", "--source=replay:" + file("text"), "--output=" + file("r2")},
		"process": {"sites", "--pid=1", "--path.procfs=" + file("none")}, "command": {hostile}, "flag": {"watch", "--" + hostile}, "value": {"record", "--interval=" + hostile, "--output=x"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, stdout, stderr := tool(ctx, args...)
			holdQuiet(t, stdout+stderr)
		})
	}
}

// holdQuiet fails if a terminal would act on a text, or if there is none.
func holdQuiet(t *testing.T, text string) {
	t.Helper()
	if text == "" {
		t.Error("nothing was said")
	}
	for line := range strings.Lines(text) {
		if strings.ContainsFunc(strings.ToValidUTF8(line, "\x1b"), func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsGraphic(r) }) {
			t.Errorf("a terminal acts on %q", line)
		}
	}
}

// TestTerminalFollows has the terminal obey the tool itself and nobody else, where it looks again and again.
func TestTerminalFollows(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var asked atomic.Int32
	url := answeringRaw(t, "HTTP/1.1 503 "+hostile+"\r\n\r\n", func() {
		if asked.Add(1) == 2 {
			cancel()
		}
	})
	_, stdout, stderr := tool(ctx, "watch", "--interval=1s", url)
	if !strings.HasPrefix(stdout, watch.Home) || !strings.Contains(stdout, `503 evil\u001b[2J\u009b2J\u202e\u007f`+"\ufffd\n") || stderr != "" {
		t.Errorf("%q %q", stdout, stderr)
	}
	holdQuiet(t, strings.ReplaceAll(stdout, watch.Home, ""))
}

// TestTerminalJSON has names that are escaped stay the same in what a program reads.
func TestTerminalJSON(t *testing.T) {
	file := hostileFiles(t)
	const want = "evil\x1b[2J\u009b2J\u202e\x7f\ufffd"
	_, listed, _ := tool(t.Context(), "backtest", "--output=json", file("apps.csv"))
	found := false
	for line := range strings.Lines(listed) {
		var x struct{ Series map[string]string }
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		found = found || x.Series["process"] == want
	}
	if !found {
		t.Errorf("no process %q in\n%.500s", want, listed)
	}
}
