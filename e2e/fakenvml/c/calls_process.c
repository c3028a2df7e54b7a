// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Memory, processes and their utilisation.

#include "fake.h"

#include <string.h>

// instance_of returns the GPU instance of a MIG device, or NULL.
static const struct gpu_instance *instance_of(const struct call *c)
{
	for (unsigned int i = 0; i < c->gpu->instances_len; i++)
		if (c->gpu->instances[i].id == c->mig->gi)
			return &c->gpu->instances[i];
	return NULL;
}

struct usage {
	uint64_t total, reserved, used, free;
};

static nvmlReturn_t usage_of(const struct call *c, struct usage *u)
{
	const struct memory *m = &c->gpu->memory;
	uint32_t gi = NO_INSTANCE;
	if (c->mig) {
		const struct gpu_instance *i = instance_of(c);
		if (!i)
			return NVML_ERROR_NOT_FOUND;
		m = &i->memory;
		gi = i->id;
	}
	u->total = m->total;
	u->reserved = m->reserved;
	u->used = memory_used(c->script, c->gpu, m, gi);
	u->free = m->total - m->reserved - u->used;
	return NVML_SUCCESS;
}

// In the first version, used includes what the driver reserves; in the second, it does not.
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	BEGIN(nvmlDeviceGetMemoryInfo, device, WANT_DEVICE);
	NEED(memory, INVALID_ARGUMENT);
	struct usage u;
	ret = usage_of(&c, &u);
	if (ret == NVML_SUCCESS)
		*memory = (nvmlMemory_t){.total = u.total, .free = u.free, .used = u.used + u.reserved};
	END(ret);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	BEGIN(nvmlDeviceGetMemoryInfo_v2, device, WANT_DEVICE);
	NEED(memory, INVALID_ARGUMENT);
	NEED_VERSION(memory->version, Memory, 2);
	struct usage u;
	ret = usage_of(&c, &u);
	if (ret == NVML_SUCCESS) {
		memory->total = u.total;
		memory->reserved = u.reserved;
		memory->free = u.free;
		memory->used = u.used;
	}
	END(ret);
}

nvmlReturn_t nvmlDeviceGetMemoryLimits_v1(nvmlDevice_t device, nvmlGetMemoryLimits_v1_t *limits)
{
	BEGIN(nvmlDeviceGetMemoryLimits_v1, device, WANT_GPU);
	NEED(limits && limits->nameSpace, INVALID_ARGUMENT);
	for (unsigned int i = 0; i < g->limits_len; i++) {
		if (!strcmp(g->limits[i].folder, limits->nameSpace)) {
			limits->softLimit = 0;
			limits->hardLimit = g->limits[i].hard;
			limits->currentUsed = memory_used(c.script, g, &g->memory, NO_INSTANCE);
			END(NVML_SUCCESS);
		}
	}
	END(NVML_ERROR_NOT_FOUND);
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *memory)
{
	BEGIN(nvmlDeviceGetBAR1MemoryInfo, device, WANT_GPU);
	NEED(memory, INVALID_ARGUMENT);
	uint64_t used = ramp_at(c.script, &g->bar1_used);
	if (used > g->bar1_total)
		used = g->bar1_total;
	*memory = (nvmlBAR1Memory_t){.bar1Total = g->bar1_total, .bar1Free = g->bar1_total - used, .bar1Used = used};
	END(NVML_SUCCESS);
}

// visible: a MIG device shows its own compute instance's processes, a GPU all.
static bool visible(const struct call *c, const struct process *q)
{
	return !c->mig || (q->gi == c->mig->gi && q->ci == c->mig->id);
}

static nvmlReturn_t list(struct call *c, enum process_list which, unsigned int *count, nvmlProcessInfo_t *infos)
{
	if (!count || (*count && !infos))
		return NVML_ERROR_INVALID_ARGUMENT;
	const struct gpu *g = c->gpu;
	unsigned int n = 0;
	for (unsigned int i = 0; i < g->list_len[which]; i++)
		n += visible(c, &g->processes[which][i]);
	if (*count < n) {
		*count = n;
		return NVML_ERROR_INSUFFICIENT_SIZE;
	}
	if (infos && call_race(c)) { // it has grown past the caller's buffer meanwhile
		++*count;
		return NVML_ERROR_INSUFFICIENT_SIZE;
	}
	*count = 0;
	for (unsigned int i = 0; i < g->list_len[which]; i++) {
		const struct process *q = &g->processes[which][i];
		if (visible(c, q))
			infos[(*count)++] = (nvmlProcessInfo_t){q->pid, ramp_at(c->script, &q->memory), q->gi, q->ci};
	}
	return NVML_SUCCESS;
}

// PROCESSES makes the second and the third version, which have the same structure under two names.
#define PROCESSES(fn, which)                                                                                           \
	nvmlReturn_t fn##_v2(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v2_t *infos)                    \
	{                                                                                                              \
		BEGIN(fn##_v2, device, WANT_DEVICE);                                                                   \
		END(list(&c, which, count, (nvmlProcessInfo_t *)infos));                                               \
	}                                                                                                              \
	nvmlReturn_t fn##_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos)                       \
	{                                                                                                              \
		BEGIN(fn##_v3, device, WANT_DEVICE);                                                                   \
		END(list(&c, which, count, infos));                                                                    \
	}

PROCESSES(nvmlDeviceGetComputeRunningProcesses, LIST_COMPUTE)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses, LIST_GRAPHICS)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses, LIST_MPS)

// stamp_now is the time of all samples, µs. It moves in steps of 0.1 s: the driver does not sample at every call either.
static uint64_t stamp_now(void)
{
	return script_now() / 100000 * 100000;
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *out,
					     unsigned int *count, unsigned long long last)
{
	BEGIN(nvmlDeviceGetProcessUtilization, device, WANT_GPU);
	NEED(count, INVALID_ARGUMENT);
	NEED(!g->mig_mode[0], NOT_SUPPORTED);
	uint64_t stamp = stamp_now();
	unsigned int n = stamp > last ? g->samples_len : 0, room = *count;
	NEED(n, NOT_FOUND);
	*count = n;
	NEED(out && room >= n, INSUFFICIENT_SIZE);
	if (call_race(&c)) {
		*count = room + 1;
		END(NVML_ERROR_INSUFFICIENT_SIZE);
	}
	for (unsigned int i = 0; i < n; i++) {
		const struct sample *q = &g->samples[i];
		out[i] = (nvmlProcessUtilizationSample_t){q->pid, stamp, q->sm, q->memory, q->encoder, q->decoder};
	}
	END(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *out)
{
	BEGIN(nvmlDeviceGetUtilizationRates, device, WANT_GPU);
	NEED(out, INVALID_ARGUMENT);
	NEED(!g->mig_mode[0], NOT_SUPPORTED);
	*out = (nvmlUtilization_t){.gpu = g->utilization[0], .memory = g->utilization[1]};
	END(NVML_SUCCESS);
}

#define ENGINE(fn, field)                                                                                              \
	nvmlReturn_t fn(nvmlDevice_t device, unsigned int *percent, unsigned int *period)                              \
	{                                                                                                              \
		BEGIN(fn, device, WANT_GPU);                                                                           \
		NEED(percent && period, INVALID_ARGUMENT);                                                             \
		NEED(!g->mig_mode[0], NOT_SUPPORTED);                                                                  \
		*percent = g->field;                                                                                   \
		*period = 167000;                                                                                      \
		END(NVML_SUCCESS);                                                                                     \
	}

ENGINE(nvmlDeviceGetEncoderUtilization, encoder)
ENGINE(nvmlDeviceGetDecoderUtilization, decoder)
ENGINE(nvmlDeviceGetJpgUtilization, jpeg)
ENGINE(nvmlDeviceGetOfaUtilization, ofa)

