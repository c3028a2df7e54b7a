// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// MIG: the mode, MIG devices and their attributes.

#include "fake.h"

#include <string.h>

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
	BEGIN(nvmlDeviceGetMigMode, device, WANT_GPU);
	NEED(current && pending, INVALID_ARGUMENT);
	NEED(g->mig_max, NOT_SUPPORTED);
	*current = g->mig_mode[0];
	*pending = g->mig_mode[1];
	END(NVML_SUCCESS);
}

GETTER(nvmlDeviceGetMaxMigDeviceCount, unsigned int, g->mig_max)

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *out)
{
	BEGIN(nvmlDeviceGetMigDeviceHandleByIndex, device, WANT_GPU);
	NEED(out, INVALID_ARGUMENT);
	NEED(g->mig_mode[0], NOT_SUPPORTED);
	NEED(index < g->mig_max, INVALID_ARGUMENT);
	for (unsigned int i = 0; i < g->mig_devices_len; i++) {
		if (g->mig_devices[i].index == index) {
			out->handle = g->mig_devices[i].handle;
			END(NVML_SUCCESS);
		}
	}
	END(NVML_ERROR_NOT_FOUND);
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *out)
{
	BEGIN(nvmlDeviceGetGpuInstanceId, device, WANT_DEVICE);
	NEED(out, INVALID_ARGUMENT);
	NEED(c.mig, NOT_SUPPORTED);
	*out = c.mig->gi;
	END(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *out)
{
	BEGIN(nvmlDeviceGetComputeInstanceId, device, WANT_DEVICE);
	NEED(out, INVALID_ARGUMENT);
	NEED(c.mig, NOT_SUPPORTED);
	*out = c.mig->id;
	END(NVML_SUCCESS);
}

static const struct gpu_instance *find_instance(const struct gpu *g, uint32_t id)
{
	for (unsigned int i = 0; i < g->instances_len; i++)
		if (g->instances[i].id == id)
			return &g->instances[i];
	return NULL;
}

static const struct profile *find_profile(const struct gpu *g, uint32_t number)
{
	for (unsigned int i = 0; i < g->profiles_len; i++)
		if (g->profiles[i].profile == number)
			return &g->profiles[i];
	return NULL;
}

static nvmlReturn_t attributes(const struct call *c, nvmlDeviceAttributes_t *out)
{
	const struct gpu_instance *gi = find_instance(c->gpu, c->mig->gi);
	const struct profile *p = gi ? find_profile(c->gpu, gi->profile) : NULL;
	if (!p)
		return NVML_ERROR_NOT_FOUND;
	*out = (nvmlDeviceAttributes_t){.multiprocessorCount = c->mig->multiprocessors,
					.gpuInstanceSliceCount = p->slices,
					.computeInstanceSliceCount = c->mig->slices,
					.memorySizeMB = p->memory_mb};
	return NVML_SUCCESS;
}

// The first version of the structure has no slice counts.
nvmlReturn_t nvmlDeviceGetAttributes(nvmlDevice_t device, nvmlDeviceAttributes_t *out)
{
	BEGIN(nvmlDeviceGetAttributes, device, WANT_DEVICE);
	NEED(out, INVALID_ARGUMENT);
	NEED(c.mig, NOT_SUPPORTED);
	nvmlDeviceAttributes_t all;
	ret = attributes(&c, &all);
	if (ret == NVML_SUCCESS)
		memcpy(out, &all, offsetof(nvmlDeviceAttributes_t, gpuInstanceSliceCount));
	END(ret);
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *out)
{
	BEGIN(nvmlDeviceGetAttributes_v2, device, WANT_DEVICE);
	NEED(out, INVALID_ARGUMENT);
	NEED(c.mig, NOT_SUPPORTED);
	END(attributes(&c, out));
}
