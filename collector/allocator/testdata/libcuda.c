/* Copyright 2026 The gpu_leak_exporter Authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * A driver's library with two devices. */
#include <string.h>

int cuDeviceGet(int *device, int ordinal) {
	*device = ordinal + 1;
	return ordinal < 2 ? 0 : 101; /* CUDA_ERROR_INVALID_DEVICE */
}

int cuDeviceGetUuid_v2(char *uuid, int device) {
	memset(uuid, device, 16);
	return 0;
}
