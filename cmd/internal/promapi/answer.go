// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package promapi

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/api"
	"github.com/prometheus/common/model"
)

const (
	// maxAnswer bounds one answer, in bytes. A chunk of 1,000 series takes that much.
	maxAnswer = 256 << 20
	// piece is how much of an answer is read at once, in bytes.
	piece = 1 << 20
)

// ErrAnswerTooLarge says that an answer is longer, or has no end.
var ErrAnswerTooLarge = fmt.Errorf("an answer is longer than %d MiB: ask for fewer series, or for a shorter range", maxAnswer>>20)

// boundedClient reads answers in pieces, so that one without an end takes the bound and no more. The client that it
// replaces has a buffer that is doubled: four times the bound at its end.
type boundedClient struct {
	api.Client // for its URL

	http *http.Client
	most int64 // bytes
}

// Do implements api.Client.
func (c *boundedClient) Do(ctx context.Context, r *http.Request) (*http.Response, []byte, error) {
	answer, err := c.http.Do(r.WithContext(ctx))
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	body, err := readPieces(answer.Body, c.most)
	return answer, body, err
}

// readPieces reads all of r, which may have so many bytes at most.
func readPieces(r io.Reader, most int64) ([]byte, error) {
	var pieces [][]byte
	for left := most; ; {
		p := make([]byte, min(piece, left+1)) // one more, to see that there is more
		n, err := io.ReadFull(r, p)
		if left -= int64(n); left < 0 {
			return nil, ErrAnswerTooLarge
		}
		pieces = append(pieces, p[:n])
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return bytes.Join(pieces, nil), nil
		case err != nil:
			return nil, err
		}
	}
}

// TypeError says why an answer is none to such a query.
type TypeError string

// Error implements error.
func (e TypeError) Error() string { return string(e) }

// MatrixOf returns the series of an answer. The error is a TypeError. The times of a series may be anything: see
// CheckTimes.
func MatrixOf(value model.Value) (model.Matrix, error) {
	matrix, ok := value.(model.Matrix)
	if !ok {
		return nil, typeError(value, "a matrix")
	}
	if slices.Contains(matrix, nil) { // JSON has null
		return nil, TypeError("answered with a series that is null")
	}
	return matrix, nil
}

// CheckTimes returns a TypeError unless the points of a series are in order of time, as a Prometheus has them, and their
// times fit into a time.Duration from 1970 on.
func CheckTimes(series *model.SampleStream) error {
	if points := series.Values; !slices.IsSortedFunc(points, later) || !areTimes(points) {
		return TypeError("answered with times that are not in order: " + Excerpt(series.Metric.String()))
	}
	return nil
}

// VectorOf returns the values of an answer about one moment. One without labels is all of a scalar. The error is a
// TypeError.
func VectorOf(value model.Value) (model.Vector, error) {
	if scalar, ok := value.(*model.Scalar); ok && scalar != nil {
		return model.Vector{{Value: scalar.Value, Timestamp: scalar.Timestamp}}, nil
	}
	vector, ok := value.(model.Vector)
	if !ok {
		return nil, typeError(value, "a vector")
	}
	if slices.Contains(vector, nil) {
		return nil, TypeError("answered with a value that is null")
	}
	return vector, nil
}

func typeError(value model.Value, want string) error {
	if value == nil { // the answer was valid JSON, but nothing else
		return TypeError("answered without a result: is this the address of a Prometheus?")
	}
	return TypeError(fmt.Sprintf("answered with a %s instead of %s", value.Type(), want))
}

// later orders points by time. Two may be of one time: some stores keep what two replicas wrote.
func later(a, b model.SamplePair) int { return cmp.Compare(a.Timestamp, b.Timestamp) }

// areTimes reports whether points that are in order have times from 1970 on that a time.Duration can hold.
func areTimes(points []model.SamplePair) bool {
	return len(points) == 0 || (points[0].Timestamp >= 0 && points[len(points)-1].Timestamp <= math.MaxInt64/model.Time(time.Millisecond))
}
