// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// MIG: the mode, MIG devices, GPU instances, compute instances and their profiles.

#include "fake.h"

#include <stdio.h>
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

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *out)
{
	BEGIN(nvmlDeviceIsMigDeviceHandle, device, WANT_DEVICE);
	NEED(out, INVALID_ARGUMENT);
	*out = c.mig != NULL;
	END(NVML_SUCCESS);
}

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

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t device, nvmlDevice_t *out)
{
	BEGIN(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, device, WANT_DEVICE);
	NEED(out && c.mig, INVALID_ARGUMENT);
	out->handle = g->handle;
	END(NVML_SUCCESS);
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
					.sharedCopyEngineCount = p->copy_engines,
					.sharedDecoderCount = p->decoders,
					.sharedEncoderCount = p->encoders,
					.sharedJpegCount = p->jpegs,
					.sharedOfaCount = p->ofas,
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

static void put_profile_v1(const struct profile *p, nvmlGpuInstanceProfileInfo_t *out)
{
	*out = (nvmlGpuInstanceProfileInfo_t){.id = p->id,
					      .sliceCount = p->slices,
					      .instanceCount = p->instances,
					      .multiprocessorCount = p->multiprocessors,
					      .copyEngineCount = p->copy_engines,
					      .decoderCount = p->decoders,
					      .encoderCount = p->encoders,
					      .jpegCount = p->jpegs,
					      .ofaCount = p->ofas,
					      .memorySizeMB = p->memory_mb};
}

static void put_profile_v2(const struct profile *p, nvmlGpuInstanceProfileInfo_v2_t *out)
{
	*out = (nvmlGpuInstanceProfileInfo_v2_t){.version = NVML_STRUCT_VERSION(GpuInstanceProfileInfo, 2),
						 .id = p->id,
						 .sliceCount = p->slices,
						 .instanceCount = p->instances,
						 .multiprocessorCount = p->multiprocessors,
						 .copyEngineCount = p->copy_engines,
						 .decoderCount = p->decoders,
						 .encoderCount = p->encoders,
						 .jpegCount = p->jpegs,
						 .ofaCount = p->ofas,
						 .memorySizeMB = p->memory_mb};
	snprintf(out->name, sizeof out->name, "%s", p->name);
}

static void put_profile_v3(const struct profile *p, nvmlGpuInstanceProfileInfo_v3_t *out)
{
	*out = (nvmlGpuInstanceProfileInfo_v3_t){.version = NVML_STRUCT_VERSION(GpuInstanceProfileInfo, 3),
						 .id = p->id,
						 .sliceCount = p->slices,
						 .instanceCount = p->instances,
						 .multiprocessorCount = p->multiprocessors,
						 .copyEngineCount = p->copy_engines,
						 .decoderCount = p->decoders,
						 .encoderCount = p->encoders,
						 .jpegCount = p->jpegs,
						 .ofaCount = p->ofas,
						 .memorySizeMB = p->memory_mb};
	snprintf(out->name, sizeof out->name, "%s", p->name);
}

// put_profile answers in the version that the caller wrote into the structure.
static nvmlReturn_t put_profile(const struct profile *p, nvmlGpuInstanceProfileInfo_v2_t *out)
{
	if (out->version == NVML_STRUCT_VERSION(GpuInstanceProfileInfo, 2))
		put_profile_v2(p, out);
	else if (out->version == NVML_STRUCT_VERSION(GpuInstanceProfileInfo, 3))
		put_profile_v3(p, (nvmlGpuInstanceProfileInfo_v3_t *)(void *)out);
	else
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned int profile,
						 nvmlGpuInstanceProfileInfo_t *out)
{
	BEGIN(nvmlDeviceGetGpuInstanceProfileInfo, device, WANT_GPU);
	NEED(out && profile < NVML_GPU_INSTANCE_PROFILE_COUNT, INVALID_ARGUMENT);
	const struct profile *p = find_profile(g, profile);
	NEED(p, NOT_SUPPORTED);
	put_profile_v1(p, out);
	END(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned int profile,
						  nvmlGpuInstanceProfileInfo_v2_t *out)
{
	BEGIN(nvmlDeviceGetGpuInstanceProfileInfoV, device, WANT_GPU);
	NEED(out && profile < NVML_GPU_INSTANCE_PROFILE_COUNT, INVALID_ARGUMENT);
	const struct profile *p = find_profile(g, profile);
	NEED(p, NOT_SUPPORTED);
	END(put_profile(p, out));
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoByIdV(nvmlDevice_t device, unsigned int id,
						      nvmlGpuInstanceProfileInfo_v2_t *out)
{
	BEGIN(nvmlDeviceGetGpuInstanceProfileInfoByIdV, device, WANT_GPU);
	NEED(out, INVALID_ARGUMENT);
	for (unsigned int i = 0; i < g->profiles_len; i++)
		if (g->profiles[i].id == id)
			END(put_profile(&g->profiles[i], out));
	END(NVML_ERROR_NOT_SUPPORTED);
}

nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned int profile_id, nvmlGpuInstance_t *out,
				       unsigned int *count)
{
	BEGIN(nvmlDeviceGetGpuInstances, device, WANT_GPU);
	NEED(out && count, INVALID_ARGUMENT);
	NEED(g->mig_mode[0], NOT_SUPPORTED);
	*count = 0;
	for (unsigned int i = 0; i < g->instances_len; i++) {
		const struct profile *p = find_profile(g, g->instances[i].profile);
		if (p && p->id == profile_id)
			out[(*count)++].handle = gpu_instance_handle(g->handle, g->instances[i].id);
	}
	END(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *out)
{
	BEGIN(nvmlDeviceGetGpuInstanceById, device, WANT_GPU);
	NEED(out, INVALID_ARGUMENT);
	NEED(g->mig_mode[0], NOT_SUPPORTED);
	NEED(find_instance(g, id), NOT_FOUND);
	out->handle = gpu_instance_handle(g->handle, id);
	END(NVML_SUCCESS);
}

// A GPU instance's call is one about its GPU, so that faults and loss of the GPU reach it.
static nvmlDevice_t gpu_of(nvmlGpuInstance_t h)
{
	return gpu_instance_valid(h) ? (nvmlDevice_t){h.handle->gpu} : no_device;
}

nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t instance, nvmlGpuInstanceInfo_t *out)
{
	BEGIN(nvmlGpuInstanceGetInfo, gpu_of(instance), WANT_GPU);
	NEED(out, INVALID_ARGUMENT);
	const struct gpu_instance *i = find_instance(g, instance.handle->id);
	NEED(g->mig_mode[0] && i, NOT_FOUND);
	const struct profile *p = find_profile(g, i->profile);
	*out = (nvmlGpuInstanceInfo_t){{g->handle}, i->id, p ? p->id : 0, {i->start, i->size}};
	END(NVML_SUCCESS);
}

static const struct mig_device *find_compute(const struct gpu *g, uint32_t gi, uint32_t id)
{
	for (unsigned int i = 0; g->mig_mode[0] && i < g->mig_devices_len; i++)
		if (g->mig_devices[i].gi == gi && g->mig_devices[i].id == id)
			return &g->mig_devices[i];
	return NULL;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t instance, unsigned int id,
						   nvmlComputeInstance_t *out)
{
	BEGIN(nvmlGpuInstanceGetComputeInstanceById, gpu_of(instance), WANT_GPU);
	NEED(out, INVALID_ARGUMENT);
	NEED(find_compute(g, instance.handle->id, id), NOT_FOUND);
	out->handle = compute_instance_handle(g->handle, instance.handle->id, id);
	END(NVML_SUCCESS);
}

// The compute instance's profile is the number of its slices less one: 1, 2, 3, … slices.
static uint32_t compute_profile(const struct mig_device *d)
{
	return d->slices ? d->slices - 1 : 0;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t instance, unsigned int profile_id,
						nvmlComputeInstance_t *out, unsigned int *count)
{
	BEGIN(nvmlGpuInstanceGetComputeInstances, gpu_of(instance), WANT_GPU);
	NEED(out && count, INVALID_ARGUMENT);
	*count = 0;
	for (unsigned int i = 0; i < g->mig_devices_len; i++) {
		const struct mig_device *d = &g->mig_devices[i];
		if (d->gi == instance.handle->id && compute_profile(d) == profile_id)
			out[(*count)++].handle = compute_instance_handle(g->handle, d->gi, d->id);
	}
	END(NVML_SUCCESS);
}

static nvmlReturn_t compute_info(const struct gpu *g, nvmlComputeInstance_t instance, nvmlComputeInstanceInfo_t *out)
{
	const struct mig_device *d = find_compute(g, instance.handle->gi, instance.handle->id);
	if (!d)
		return NVML_ERROR_NOT_FOUND;
	*out = (nvmlComputeInstanceInfo_t){{g->handle},
					   {gpu_instance_handle(g->handle, d->gi)},
					   d->id,
					   compute_profile(d),
					   {0, d->slices}};
	return NVML_SUCCESS;
}

static nvmlDevice_t gpu_of_compute(nvmlComputeInstance_t h)
{
	return compute_instance_valid(h) ? (nvmlDevice_t){h.handle->gpu} : no_device;
}

// The first version of the structure has no placement.
nvmlReturn_t nvmlComputeInstanceGetInfo(nvmlComputeInstance_t instance, nvmlComputeInstanceInfo_t *out)
{
	BEGIN(nvmlComputeInstanceGetInfo, gpu_of_compute(instance), WANT_GPU);
	NEED(out, INVALID_ARGUMENT);
	nvmlComputeInstanceInfo_t all;
	ret = compute_info(g, instance, &all);
	if (ret == NVML_SUCCESS)
		memcpy(out, &all, offsetof(nvmlComputeInstanceInfo_t, placement));
	END(ret);
}

nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t instance, nvmlComputeInstanceInfo_t *out)
{
	BEGIN(nvmlComputeInstanceGetInfo_v2, gpu_of_compute(instance), WANT_GPU);
	NEED(out, INVALID_ARGUMENT);
	END(compute_info(g, instance, out));
}
