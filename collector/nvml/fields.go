// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"encoding/binary"
	"math"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// fieldID is one of NVML_FI_…, and the link or other scope that it is asked for.
type fieldID [2]uint32

// named is a constant of the library, and its name in the model.
type named[T any] struct {
	name string
	id   T
}

// fieldValue is the answer: absent where this GPU or driver does not have the field.
type fieldValue struct {
	kind nvml.ValueType
	bits uint64
	ok   bool
}

// fields asks for several fields in one call. Each has a return code of its own. The first failure counts as that of the call;
// the other values are used all the same. A driver that is older than a field calls it an invalid argument.
func (r *reading) fields(ids ...fieldID) []fieldValue {
	const name, unknown = "nvmlDeviceGetFieldValues", nvml.ERROR_INVALID_ARGUMENT
	values := make([]nvml.FieldValue, len(ids))
	for i, id := range ids {
		values[i] = nvml.FieldValue{FieldId: id[0], ScopeId: id[1]}
	}
	answered := false
	_ = r.call(name, func() nvml.Return {
		ret := r.handle.GetFieldValues(values)
		answered = ret == nvml.SUCCESS
		for _, v := range values {
			one := nvml.Return(v.NvmlReturn)
			if o := classify(one, []nvml.Return{unknown}); answered && o != succeeded && o != absent {
				return one
			}
		}
		return ret
	}, unknown)
	out := make([]fieldValue, len(ids))
	for i, v := range values {
		if answered && nvml.Return(v.NvmlReturn) == nvml.SUCCESS {
			out[i] = fieldValue{nvml.ValueType(v.ValueType), binary.NativeEndian.Uint64(v.Value[:]), true}
		}
	}
	return out
}

// count returns the value of a field that counts; absent where it is all ones in its own width, negative, or no whole number.
func (v fieldValue) count() gpu.Opt[uint64] {
	n, top := v.bits, uint64(math.MaxUint64)
	switch v.kind {
	case nvml.VALUE_TYPE_UNSIGNED_INT:
		n, top = uint64(uint32(v.bits)), math.MaxUint32
	case nvml.VALUE_TYPE_UNSIGNED_SHORT:
		n, top = uint64(uint16(v.bits)), math.MaxUint16
	case nvml.VALUE_TYPE_SIGNED_INT:
		n, top = uint64(int64(int32(v.bits))), 1<<63 // those below 0
	case nvml.VALUE_TYPE_SIGNED_LONG_LONG:
		top = 1 << 63
	case nvml.VALUE_TYPE_UNSIGNED_LONG, nvml.VALUE_TYPE_UNSIGNED_LONG_LONG:
	default:
		top = 0
	}
	return gpu.Some(n).If(v.ok && n < top)
}

// wide reports whether the field counts in 64 bits.
func (v fieldValue) wide() bool {
	switch v.kind {
	case nvml.VALUE_TYPE_UNSIGNED_LONG, nvml.VALUE_TYPE_UNSIGNED_LONG_LONG, nvml.VALUE_TYPE_SIGNED_LONG_LONG:
		return v.ok
	}
	return false
}

// degrees returns the value of a field in °C. Drivers give it as a signed number, or as an unsigned one that has to be taken
// for signed.
func (v fieldValue) degrees() gpu.Opt[float64] {
	degrees := float64(int64(v.bits))
	switch v.kind {
	case nvml.VALUE_TYPE_DOUBLE:
		degrees = math.Float64frombits(v.bits)
	case nvml.VALUE_TYPE_UNSIGNED_INT, nvml.VALUE_TYPE_SIGNED_INT:
		degrees = float64(int32(v.bits))
	case nvml.VALUE_TYPE_UNSIGNED_SHORT:
		degrees = float64(int16(v.bits))
	}
	return celsius(degrees).If(v.ok)
}

// celsius returns a temperature or a margin, absent where no GPU can have it.
func celsius(v float64) gpu.Opt[float64] {
	return gpu.Some(v).If(v > -300 && v < 300)
}

// sensor leaves out −1 °C, which is all ones. A margin may be −1.
func sensor(v gpu.Opt[float64]) gpu.Opt[float64] { return v.If(v.V != -1) }
