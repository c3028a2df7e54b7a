/* Copyright 2026 The gpu_leak_exporter Authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * The driver's functions for memory, without a GPU. */
#include <stddef.h>
#include <stdint.h>

static _Atomic uint64_t next = 0x7f0000000000;

int cuMemAlloc_v2(uint64_t *out, size_t size) {
	if (size == 0)
		return 1; /* CUDA_ERROR_INVALID_VALUE */
	*out = next;
	next += size;
	return 0;
}

int cuMemFree_v2(uint64_t block) { return block == 0; }
