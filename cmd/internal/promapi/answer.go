// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package promapi

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/common/model"
)

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
	points := series.Values
	if len(points) == 0 {
		return nil
	}
	first, last := points[0].Timestamp, points[len(points)-1].Timestamp
	if !slices.IsSortedFunc(points, later) || first < 0 || last > math.MaxInt64/model.Time(time.Millisecond) {
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
