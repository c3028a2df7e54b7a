// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package promapi asks a Prometheus, or what speaks its API, for the used memory of
// GPUs. It knows the metrics of DCGM exporter, of nvidia_gpu_exporter and of this
// exporter, their units, and what bounds them. A backtest reads the past with it, and
// the exporter the present.
package promapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/config"
	"github.com/prometheus/common/version"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/cli"
)

// ClientConfig says whom to ask, and how.
type ClientConfig struct {
	// URL is the address of the Prometheus. A user and a password in it become basic authentication, so that no error
	// and no log names them.
	URL string
	// HTTP is how. HTTPFlag is the flag with the file that says so; it stands in errors.
	HTTP     config.HTTPClientConfig
	HTTPFlag string
	// Program is the name of the client.
	Program string
}

// LoadHTTP reads a file with the http_config of Prometheus, which the flag --http.config.file names; "" is none.
func LoadHTTP(path string) (config.HTTPClientConfig, error) {
	if path == "" {
		return config.DefaultHTTPClientConfig, nil
	}
	cfg, _, err := config.LoadHTTPConfigFile(path)
	if err != nil {
		return config.HTTPClientConfig{}, fmt.Errorf("--http.config.file=%s: %w", path, err)
	}
	return *cfg, nil
}

// Client asks one Prometheus. Its methods may be called from several goroutines.
type Client struct {
	v1.API
	where string // the address, without a secret
}

// ParseURL reads the address of a Prometheus.
func ParseURL(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" { // url.Parse would repeat a password
		return nil, errors.New("is not an address such as http://localhost:9090")
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("must end with the path: what follows ? or # is never sent")
	}
	return u, nil
}

// Redacted returns an address as it may be shown: without user and password.
func Redacted(address string) string {
	u, err := ParseURL(address)
	if err != nil {
		return "?"
	}
	u.User = nil
	return u.String()
}

// NewClient returns a Client. It asks nothing yet.
func NewClient(c ClientConfig) (*Client, error) {
	u, err := ParseURL(c.URL)
	if err != nil {
		return nil, err
	}
	if u.User != nil {
		if c.HTTP.BasicAuth != nil || c.HTTP.Authorization != nil || c.HTTP.OAuth2 != nil {
			return nil, fmt.Errorf("%s tells who asks, and the address does, too: take the user out of the address", c.HTTPFlag)
		}
		password, _ := u.User.Password()
		c.HTTP.BasicAuth = &config.BasicAuth{Username: u.User.Username(), Password: config.Secret(password)}
		u.User = nil
	}
	h, err := config.NewClientFromConfig(c.HTTP, c.Program, config.WithUserAgent(version.ComponentUserAgent(c.Program)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.HTTPFlag, err)
	}
	h.Transport = bounded{h.Transport}
	p, err := api.NewClient(api.Config{Address: u.String(), Client: h})
	if err != nil {
		return nil, errors.New("is not an address such as http://localhost:9090")
	}
	return &Client{v1.NewAPI(p), u.String()}, nil
}

// maxAnswer bounds the text of an answer, in bytes. Decoding one takes three to six times that much memory. One about 20,000
// GPUs, four series each, has 50 MB.
const maxAnswer = 64 << 20

// ErrAnswerTooLarge says what to do about an answer that is above the bound, or has no end. IsTooMuch is true of it.
var ErrAnswerTooLarge = fmt.Errorf("an answer is longer than %d MiB: ask for fewer series, or for a shorter range", maxAnswer>>20)

// bounded bounds the answers of a transport.
type bounded struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = &boundedBody{answer.Body, maxAnswer}
	}
	return answer, err
}

// boundedBody fails once more than left bytes were read.
type boundedBody struct {
	io.ReadCloser

	left int
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (n int, err error) {
	if n, err = b.ReadCloser.Read(p); n > b.left {
		return n, ErrAnswerTooLarge
	}
	b.left -= n
	return n, err
}

// tooMuch is what the error of a server says, besides other things, that is refused for the number
// of samples: that of Prometheus (--query.max-samples), VictoriaMetrics and Mimir.
var tooMuch = []string{"too many samples", "-search.maxSamplesPerQuery", "err-mimir-max-chunks-per-query"}

// IsTooMuch reports whether an answer was refused because it has too many samples, which are counted
// over all series: by the server, or as an ErrAnswerTooLarge.
func IsTooMuch(err error) bool {
	answer, ok := errors.AsType[*v1.Error](err)
	return errors.Is(err, ErrAnswerTooLarge) || ok && slices.ContainsFunc(tooMuch, func(text string) bool { return strings.Contains(answer.Msg+answer.Detail, text) })
}

// Refused adds to an error of the server what it said, which the client leaves out, and who
// it is: a proxy before it may have answered.
func (c *Client) Refused(err error) error {
	answer, ok := errors.AsType[*v1.Error](err)
	if !ok {
		return err // of the connection: it names the address
	}
	said := answer.Detail
	var body struct {
		Error string `json:"error"`
	}
	if json.Unmarshal([]byte(said), &body) == nil && body.Error != "" {
		said = body.Error
	}
	if said = Excerpt(said); said != "" {
		err = fmt.Errorf("%w: %s", err, said)
	}
	return fmt.Errorf("%s: %w", c.where, err)
}

// Excerpt is the beginning of a text from outside, in one line of what can be printed.
func Excerpt(text string) string {
	return cli.Printable(strings.Join(strings.Fields(text), " "), 200)
}
