// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts"
)

const (
	// path is where an exporter tells its verdicts.
	path = "/api/v1/verdicts"
	// maxAnswer is more than 16 GPUs of 1,024 processes need, in bytes.
	maxAnswer = 64 << 20
)

// Exporter is a running exporter.
type Exporter struct {
	address string
	client  *http.Client
}

// NewExporter returns the exporter at an address such as http://node7:9844 or node7:9844, which
// may have a path before that of the pages. It asks nothing yet.
func NewExporter(address string, client *http.Client) (*Exporter, error) {
	full := address
	if !strings.Contains(full, "://") {
		full = "http://" + full
	}
	u, err := url.Parse(full)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" { // the error would repeat a password
		return nil, errors.New("the address is none of an exporter, such as http://node7:9844")
	}
	if u.User != nil {
		return nil, errors.New("the address has a user: name it in the file of --http.config.file, where other users of this machine do not see it")
	}
	u.RawQuery, u.Fragment = "", ""
	u.Path = ownPage.ReplaceAllString(u.Path, "")
	return &Exporter{u.String() + path, client}, nil
}

// ownPage is the end of an address that was copied from a page of an exporter.
var ownPage = regexp.MustCompile(`(/metrics|/predict(/[^/]*)?|/api/v1/(verdicts|sites)|/-/(healthy|ready|reload))?/*$`)

// Verdicts asks for the verdicts now.
func (e *Exporter) Verdicts(ctx context.Context) (*verdicts.Data, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.address, http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := e.client.Do(request)
	if err != nil {
		if nobodyThere(err) {
			err = fmt.Errorf("%w; does an exporter run there? its port is 9844", err)
		}
		return nil, fmt.Errorf("asking the exporter: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("asking the exporter: %s answers %s", e.address, answer.Status)
	}
	v, err := Decode(answer.Body)
	if err != nil {
		return nil, fmt.Errorf("asking the exporter: %s: %w", e.address, err)
	}
	return v, nil
}

// nobodyThere reports whether no connection came about to a host that has an address. Windows has a number of its
// own for a connection that is refused.
func nobodyThere(err error) bool {
	call, dialed := errors.AsType[*net.OpError](err)
	_, unknown := errors.AsType[*net.DNSError](err)
	return dialed && call.Op == "dial" && !unknown
}

// Decode reads an answer with verdicts.
func Decode(r io.Reader) (*verdicts.Data, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxAnswer:
		return nil, fmt.Errorf("the answer is longer than %d MiB", maxAnswer>>20)
	}
	var v verdicts.Envelope
	if err := json.Unmarshal(text, &v); err != nil {
		return nil, fmt.Errorf("the answer is none of an exporter: %w", err)
	}
	if v.Status != "success" || v.Data.Time.IsZero() {
		return nil, errors.New("the answer is none of an exporter")
	}
	return &v.Data, nil
}
