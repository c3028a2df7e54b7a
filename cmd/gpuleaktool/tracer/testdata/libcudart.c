/* Copyright 2026 The gpu_leak_exporter Authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * The runtime's functions for memory call the driver's. */
#include <stddef.h>
#include <stdint.h>

int cuMemAlloc_v2(uint64_t *out, size_t size);
int cuMemFree_v2(uint64_t block);

int cudaMalloc(void **out, size_t size) {
	uint64_t block = 0;
	int result = cuMemAlloc_v2(&block, size);
	*out = (void *)block;
	return result;
}

int cudaFree(void *block) { return cuMemFree_v2((uint64_t)block); }
