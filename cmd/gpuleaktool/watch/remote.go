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
	// maxAnswer is how much of an answer is read: more than 16 GPUs of 1,024 processes need, in bytes.
	maxAnswer = 64 << 20
)

// lookThere returns what asks the exporter at an address such as http://node7:9844 or node7:9844, which
// may have a path before that of the pages, and that address without the path of a page.
func lookThere(address string, client *http.Client) (look, *url.URL, error) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" { // the error would repeat a password
		return nil, nil, errors.New("the address is none of an exporter, such as http://node7:9844")
	}
	if u.User != nil {
		return nil, nil, errors.New("the address has a user: name it in the file of --http.config.file, where other users of this machine do not see it")
	}
	u.RawQuery, u.Fragment = "", ""
	u.Path = ownPage.ReplaceAllString(u.Path, "")
	return func(ctx context.Context) (*verdicts.Data, error) {
		v, err := ask(ctx, u.JoinPath(path).String(), client)
		if err != nil {
			return nil, fmt.Errorf("asking the exporter: %w", err)
		}
		return v, nil
	}, u, nil
}

// ownPage is the end of an address that was copied from a page of an exporter.
var ownPage = regexp.MustCompile(`(/metrics|/predict(/[^/]*)?|/incidents|/runbook|/api/v1/(verdicts|sites|incidents)|/-/(healthy|ready|reload))?/*$`)

// ask asks for the verdicts now.
func ask(ctx context.Context, address string, client *http.Client) (*verdicts.Data, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(request)
	if err != nil {
		if nobodyThere(err) {
			err = fmt.Errorf("%w; does an exporter run there? its port is 9844", err)
		}
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		hint := map[int]string{http.StatusUnauthorized: "; it needs the right user and password in the file of --http.config.file"}
		return nil, fmt.Errorf("%s answers %s%s", address, answer.Status, hint[answer.StatusCode])
	}
	v, err := decode(answer.Body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
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

// decode reads an answer with verdicts.
func decode(r io.Reader) (*verdicts.Data, error) {
	var v verdicts.Envelope[verdicts.Data]
	if err := json.NewDecoder(io.LimitReader(r, maxAnswer)).Decode(&v); err != nil {
		return nil, fmt.Errorf("the answer is none of an exporter: %w", err)
	}
	if v.Status != "success" || v.Data.Time.IsZero() {
		return nil, errors.New("the answer is none of an exporter")
	}
	return &v.Data, nil
}
