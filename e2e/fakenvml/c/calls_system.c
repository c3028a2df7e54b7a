// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Life cycle, the node, device handles and events.

#include "fake.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

nvmlReturn_t nvmlInit(void)
{
	return fake_init(FN_nvmlInit);
}

nvmlReturn_t nvmlInit_v2(void)
{
	return fake_init(FN_nvmlInit_v2);
}

nvmlReturn_t nvmlShutdown(void)
{
	return fake_shutdown();
}

const char *nvmlErrorString(nvmlReturn_t code)
{
	static const char *const texts[] = {
		"Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions",
		"Already Initialized", "Not Found", "Insufficient Size", "Insufficient External Power",
		"Driver Not Loaded", "Timeout", "Interrupt Request Issue", "NVML Shared Library Not Found",
		"Function Not Found", "Corrupted infoROM", "GPU is lost", "GPU requires reset",
		"GPU access blocked by the operating system", "Driver/library version mismatch", "In use by another client",
		"Insufficient Memory", "No data", "The requested vgpu operation is not available on target device",
		"Insufficient resources", "Frequency not supported", "Argument version mismatch", "Deprecated", "Not ready",
		"GPU not found", "Invalid state", "Reset type not supported",
	};
	if ((size_t)code < sizeof texts / sizeof *texts)
		return texts[code];
	return "Unknown Error";
}

#define SYSTEM_STRING(fn, expr)                                                                                        \
	nvmlReturn_t fn(char *out, unsigned int len)                                                                   \
	{                                                                                                              \
		BEGIN(fn, no_device, WANT_NOTHING);                                                                    \
		END(copy_string(out, len, (expr)));                                                                    \
	}

SYSTEM_STRING(nvmlSystemGetDriverVersion, c.script->driver)

#define CUDA_VERSION(fn)                                                                                               \
	nvmlReturn_t fn(int *out)                                                                                      \
	{                                                                                                              \
		BEGIN(fn, no_device, WANT_NOTHING);                                                                    \
		NEED(out, INVALID_ARGUMENT);                                                                           \
		*out = c.script->cuda;                                                                                 \
		END(NVML_SUCCESS);                                                                                     \
	}

CUDA_VERSION(nvmlSystemGetCudaDriverVersion)
CUDA_VERSION(nvmlSystemGetCudaDriverVersion_v2)

#define DEVICE_COUNT(fn)                                                                                               \
	nvmlReturn_t fn(unsigned int *out)                                                                             \
	{                                                                                                              \
		BEGIN(fn, no_device, WANT_NOTHING);                                                                    \
		NEED(out, INVALID_ARGUMENT);                                                                           \
		*out = device_count(&c);                                                                               \
		END(NVML_SUCCESS);                                                                                     \
	}

DEVICE_COUNT(nvmlDeviceGetCount)
DEVICE_COUNT(nvmlDeviceGetCount_v2)

#define HANDLE_BY_INDEX(fn)                                                                                            \
	nvmlReturn_t fn(unsigned int index, nvmlDevice_t *out)                                                         \
	{                                                                                                              \
		BEGIN(fn, no_device, WANT_NOTHING);                                                                    \
		struct nvmlDevice_st *h;                                                                               \
		NEED(out && index < device_count(&c), INVALID_ARGUMENT);                                               \
		g = device_at(&c, index, &h);                                                                          \
		NEED(g, GPU_IS_LOST);                                                                                  \
		ret = call_target(&c, g, h);                                                                           \
		if (ret == NVML_SUCCESS)                                                                               \
			out->handle = h;                                                                               \
		END(ret);                                                                                              \
	}

HANDLE_BY_INDEX(nvmlDeviceGetHandleByIndex)
HANDLE_BY_INDEX(nvmlDeviceGetHandleByIndex_v2)

// by_uuid finds a GPU or, in MIG mode, a MIG device.
static nvmlReturn_t by_uuid(struct call *c, const char *uuid, nvmlDevice_t *out)
{
	for (unsigned int i = 0; i < c->script->gpus_len; i++) {
		const struct gpu *g = &c->script->gpus[i];
		struct nvmlDevice_st *h = strcmp(g->uuid, uuid) ? NULL : g->handle;
		for (unsigned int j = 0; !h && g->mig_mode[0] && j < g->mig_devices_len; j++)
			if (!strcmp(g->mig_devices[j].uuid, uuid))
				h = g->mig_devices[j].handle;
		if (!h)
			continue;
		nvmlReturn_t ret = call_target(c, g, h);
		if (ret == NVML_SUCCESS)
			out->handle = h;
		return ret;
	}
	return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *out)
{
	BEGIN(nvmlDeviceGetHandleByUUID, no_device, WANT_NOTHING);
	NEED(uuid && out, INVALID_ARGUMENT);
	END(by_uuid(&c, uuid, out));
}

// Events. A set remembers, for each GPU that is registered, the number of the last event that it needs no more.
struct nvmlEventSet_st {
	struct nvmlEventSet_st *next;
	int waiting;
	struct registration {
		struct nvmlDevice_st *gpu;
		uint64_t types, last;
	} registrations[MAX_GPUS];
	unsigned int registrations_len;
};

static pthread_mutex_t events_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nvmlEventSet_st *sets;

// find_set returns the place that points to the set, or NULL; the lock is held.
static struct nvmlEventSet_st **find_set(nvmlEventSet_t set)
{
	for (struct nvmlEventSet_st **s = &sets; *s; s = &(*s)->next)
		if (*s == set.handle)
			return s;
	return NULL;
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *out)
{
	BEGIN(nvmlEventSetCreate, no_device, WANT_NOTHING);
	NEED(out, INVALID_ARGUMENT);
	struct nvmlEventSet_st *s = calloc(1, sizeof *s);
	NEED(s, MEMORY);
	pthread_mutex_lock(&events_lock);
	s->next = sets;
	sets = s;
	pthread_mutex_unlock(&events_lock);
	out->handle = s;
	END(NVML_SUCCESS);
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
	BEGIN(nvmlEventSetFree, no_device, WANT_NOTHING);
	pthread_mutex_lock(&events_lock);
	struct nvmlEventSet_st **at = find_set(set), *s = at ? *at : NULL;
	if (s && s->waiting)
		record_violation("nvmlEventSetFree while a thread waits on the set");
	if (s && !s->waiting) {
		*at = s->next;
		free(s);
	}
	pthread_mutex_unlock(&events_lock);
	END(s ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT);
}

static nvmlReturn_t enlist(const struct call *c, nvmlEventSet_t set, uint64_t types)
{
	struct nvmlEventSet_st **at = find_set(set), *s = at ? *at : NULL;
	if (!s)
		return NVML_ERROR_INVALID_ARGUMENT;
	unsigned int i = 0;
	while (i < s->registrations_len && s->registrations[i].gpu != c->gpu->handle)
		i++;
	if (i == MAX_GPUS)
		return NVML_ERROR_INSUFFICIENT_RESOURCES;
	struct registration *r = &s->registrations[i];
	if (i == s->registrations_len) {
		s->registrations_len++;
		*r = (struct registration){.gpu = c->gpu->handle, .last = c->script->max_seq};
	}
	r->types |= types;
	return NVML_SUCCESS;
}

#define EVENT_TYPES                                                                                                    \
	((unsigned long long)(nvmlEventTypeSingleBitEccError | nvmlEventTypeDoubleBitEccError | nvmlEventTypePState |          \
			      nvmlEventTypeXidCriticalError | nvmlEventTypeClock | nvmlEventMigConfigChange))

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set)
{
	BEGIN(nvmlDeviceRegisterEvents, device, WANT_GPU);
	NEED(!(types & ~EVENT_TYPES), NOT_SUPPORTED);
	pthread_mutex_lock(&events_lock);
	ret = enlist(&c, set, types);
	pthread_mutex_unlock(&events_lock);
	END(ret);
}

GETTER(nvmlDeviceGetSupportedEventTypes, unsigned long long, EVENT_TYPES)

static const struct gpu *registered_gpu(const struct call *c, const struct registration *r)
{
	for (unsigned int i = 0; i < c->script->gpus_len; i++)
		if (c->script->gpus[i].handle == r->gpu)
			return &c->script->gpus[i];
	return NULL;
}

// next_event takes the oldest event that the set has not delivered. GPU_IS_LOST if there is none, but a lost GPU.
static nvmlReturn_t next_event(const struct call *c, struct nvmlEventSet_st *s, nvmlEventData_t *data)
{
	const struct event *best = NULL;
	struct registration *owner = NULL;
	bool lost = false;
	for (unsigned int i = 0; i < s->registrations_len; i++) {
		struct registration *r = &s->registrations[i];
		const struct gpu *g = registered_gpu(c, r);
		lost |= !g || g->lost;
		for (unsigned int j = 0; g && j < g->events_len; j++) {
			const struct event *e = &g->events[j];
			if (e->seq > r->last && (e->type & r->types) && (!best || e->seq < best->seq)) {
				best = e;
				owner = r;
			}
		}
	}
	if (!best)
		return lost ? NVML_ERROR_GPU_IS_LOST : NVML_ERROR_TIMEOUT;
	owner->last = best->seq;
	*data = (nvmlEventData_t){{owner->gpu}, best->type, best->data, NO_INSTANCE, NO_INSTANCE};
	return NVML_SUCCESS;
}

static uint64_t monotonic_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static nvmlReturn_t try_event(const struct call *c, nvmlEventSet_t set, nvmlEventData_t *data, int waiting)
{
	pthread_mutex_lock(&events_lock);
	struct nvmlEventSet_st **at = find_set(set);
	nvmlReturn_t ret = NVML_ERROR_INVALID_ARGUMENT;
	if (at) {
		(*at)->waiting += waiting;
		ret = next_event(c, *at, data);
	}
	pthread_mutex_unlock(&events_lock);
	return ret;
}

static nvmlReturn_t wait_event(struct call *c, nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
	uint64_t end = monotonic_us() + (uint64_t)timeout_ms * 1000;
	nvmlReturn_t ret = try_event(c, set, data, 1);
	if (ret == NVML_ERROR_INVALID_ARGUMENT)
		return ret;
	while (ret == NVML_ERROR_TIMEOUT && monotonic_us() < end) {
		sleep_us(2000);
		call_refresh(c);
		ret = try_event(c, set, data, 0);
	}
	pthread_mutex_lock(&events_lock);
	struct nvmlEventSet_st **at = find_set(set);
	if (at)
		(*at)->waiting--;
	pthread_mutex_unlock(&events_lock);
	return ret;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
	BEGIN(nvmlEventSetWait_v2, no_device, WANT_NOTHING);
	NEED(data, INVALID_ARGUMENT);
	END(wait_event(&c, set, data, timeout_ms));
}

// The first version knows no instances and leaves those members alone.
nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
	BEGIN(nvmlEventSetWait, no_device, WANT_NOTHING);
	NEED(data, INVALID_ARGUMENT);
	nvmlEventData_t got;
	ret = wait_event(&c, set, &got, timeout_ms);
	if (ret == NVML_SUCCESS)
		memcpy(data, &got, offsetof(nvmlEventData_t, gpuInstanceId));
	END(ret);
}
