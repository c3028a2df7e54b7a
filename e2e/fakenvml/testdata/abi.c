// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// A C client of the library: what go-nvml never does, because it always passes good arguments. Usage: abi LIBRARY.
// The script has GPU 0 with compute processes 5 and 6 and a sample of 5 at 1000 µs, and GPU 1 without processes.

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvml.h"

static int failures;

#define IS(got, want)                                                                                                  \
	do {                                                                                                           \
		long long g = (long long)(got), w = (long long)(want);                                                 \
		if (g != w) {                                                                                          \
			failures++;                                                                                    \
			printf("line %d: %s: got %lld, want %lld\n", __LINE__, #got, g, w);                            \
		}                                                                                                      \
	} while (0)
#define SYM(name) __typeof__(&name) p_##name = (__typeof__(&name))dlsym(lib, #name)

static void *lib;

static void check_processes(nvmlDevice_t a, nvmlDevice_t b)
{
	SYM(nvmlDeviceGetComputeRunningProcesses_v3);
	SYM(nvmlDeviceGetComputeRunningProcesses);
	nvmlProcessInfo_t infos[3];
	unsigned int n = 0;
	IS(p_nvmlDeviceGetComputeRunningProcesses_v3(a, &n, NULL), NVML_ERROR_INSUFFICIENT_SIZE);
	IS(n, 2);
	IS(p_nvmlDeviceGetComputeRunningProcesses_v3(a, &n, NULL), NVML_ERROR_INVALID_ARGUMENT);
	n = 1;
	IS(p_nvmlDeviceGetComputeRunningProcesses_v3(a, &n, infos), NVML_ERROR_INSUFFICIENT_SIZE);
	IS(n, 2);
	IS(p_nvmlDeviceGetComputeRunningProcesses_v3(a, &n, infos), NVML_SUCCESS);
	IS(n, 2);
	IS(infos[1].pid, 6);
	n = 3;
	IS(p_nvmlDeviceGetComputeRunningProcesses_v3(a, &n, infos), NVML_SUCCESS);
	IS(n, 2);
	n = 0;
	IS(p_nvmlDeviceGetComputeRunningProcesses_v3(b, &n, NULL), NVML_SUCCESS);
	IS(n, 0);
	IS(p_nvmlDeviceGetComputeRunningProcesses_v3(a, NULL, NULL), NVML_ERROR_INVALID_ARGUMENT);
	nvmlProcessInfo_v1_t old[2];
	n = 2;
	IS(p_nvmlDeviceGetComputeRunningProcesses(a, &n, old), NVML_SUCCESS);
	IS(old[1].pid, 6);
	IS(old[1].usedGpuMemory, 2048);
}

static void check_utilization(nvmlDevice_t a, nvmlDevice_t b)
{
	SYM(nvmlDeviceGetProcessUtilization);
	SYM(nvmlDeviceGetProcessesUtilizationInfo);
	nvmlProcessUtilizationSample_t samples[2];
	unsigned int n = 0;
	IS(p_nvmlDeviceGetProcessUtilization(a, NULL, &n, 0), NVML_ERROR_INSUFFICIENT_SIZE);
	IS(n, 1);
	IS(p_nvmlDeviceGetProcessUtilization(a, samples, &n, 999), NVML_SUCCESS);
	IS(samples[0].timeStamp, 1000);
	IS(p_nvmlDeviceGetProcessUtilization(a, samples, &n, 1000), NVML_ERROR_NOT_FOUND);

	nvmlProcessUtilizationInfo_v1_t infos[2];
	nvmlProcessesUtilizationInfo_t info = {0};
	IS(p_nvmlDeviceGetProcessesUtilizationInfo(a, &info), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	info.version = nvmlProcessesUtilizationInfo_v1;
	IS(p_nvmlDeviceGetProcessesUtilizationInfo(a, &info), NVML_ERROR_INSUFFICIENT_SIZE);
	IS(info.processSamplesCount, 1);
	info.procUtilArray = infos;
	IS(p_nvmlDeviceGetProcessesUtilizationInfo(a, &info), NVML_SUCCESS);
	IS(info.processSamplesCount, 1);
	IS(infos[0].pid, 5);
	IS(infos[0].jpgUtil, 15);
	IS(infos[0].ofaUtil, 16);
	IS(p_nvmlDeviceGetProcessesUtilizationInfo(b, &info), NVML_ERROR_NOT_FOUND);
}

static void check_versions(nvmlDevice_t a)
{
	SYM(nvmlDeviceGetMemoryInfo_v2);
	SYM(nvmlDeviceGetTemperatureV);
	SYM(nvmlDeviceGetMarginTemperature);
	SYM(nvmlDeviceGetRunningProcessDetailList);
	nvmlMemory_v2_t memory = {0};
	IS(p_nvmlDeviceGetMemoryInfo_v2(a, &memory), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	memory.version = nvmlMemory_v2 + (1 << 24);
	IS(p_nvmlDeviceGetMemoryInfo_v2(a, &memory), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	memory.version = nvmlMemory_v2;
	IS(p_nvmlDeviceGetMemoryInfo_v2(a, &memory), NVML_SUCCESS);
	IS(memory.total, memory.used + memory.free + memory.reserved);
	nvmlTemperature_t t = {0};
	IS(p_nvmlDeviceGetTemperatureV(a, &t), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	nvmlMarginTemperature_t margin = {0};
	IS(p_nvmlDeviceGetMarginTemperature(a, &margin), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	nvmlProcessDetailList_t list = {.version = nvmlProcessDetailList_v1};
	IS(p_nvmlDeviceGetRunningProcessDetailList(a, &list), NVML_ERROR_INSUFFICIENT_SIZE);
	IS(list.numProcArrayEntries, 2);
}

static void check_arguments(nvmlDevice_t a)
{
	SYM(nvmlDeviceGetName);
	SYM(nvmlDeviceGetPowerUsage);
	SYM(nvmlDeviceGetClockInfo);
	SYM(nvmlDeviceGetHandleByIndex_v2);
	SYM(nvmlDeviceGetHandleByUUID);
	SYM(nvmlDeviceGetPciInfo);
	char name[4];
	IS(p_nvmlDeviceGetName(a, name, sizeof name), NVML_ERROR_INSUFFICIENT_SIZE);
	IS(p_nvmlDeviceGetName(a, NULL, 0), NVML_ERROR_INVALID_ARGUMENT);
	unsigned int v;
	IS(p_nvmlDeviceGetPowerUsage((nvmlDevice_t){NULL}, &v), NVML_ERROR_INVALID_ARGUMENT);
	IS(p_nvmlDeviceGetPowerUsage((nvmlDevice_t){(void *)&v}, &v), NVML_ERROR_INVALID_ARGUMENT);
	IS(p_nvmlDeviceGetPowerUsage(a, NULL), NVML_ERROR_INVALID_ARGUMENT);
	IS(p_nvmlDeviceGetClockInfo(a, (nvmlClockType_t)99, &v), NVML_ERROR_INVALID_ARGUMENT);
	nvmlDevice_t d;
	IS(p_nvmlDeviceGetHandleByIndex_v2(2, &d), NVML_ERROR_INVALID_ARGUMENT);
	IS(p_nvmlDeviceGetHandleByUUID("GPU-none", &d), NVML_ERROR_NOT_FOUND);
	nvmlPciInfo_t pci;
	memset(&pci, 0x55, sizeof pci);
	IS(p_nvmlDeviceGetPciInfo(a, &pci), NVML_SUCCESS);
	IS(pci.bus, 0x1B);
	IS(pci.pciSubSystemId, 0x55555555); // not in the first version
	IS(pci.busId[0], 0x55);
}

static void check_events(void)
{
	SYM(nvmlEventSetCreate);
	SYM(nvmlEventSetWait_v2);
	SYM(nvmlEventSetFree);
	nvmlEventSet_t set, none = {NULL};
	nvmlEventData_t data;
	IS(p_nvmlEventSetCreate(NULL), NVML_ERROR_INVALID_ARGUMENT);
	IS(p_nvmlEventSetCreate(&set), NVML_SUCCESS);
	IS(p_nvmlEventSetWait_v2(set, &data, 0), NVML_ERROR_TIMEOUT);
	IS(p_nvmlEventSetWait_v2(set, NULL, 0), NVML_ERROR_INVALID_ARGUMENT);
	IS(p_nvmlEventSetWait_v2(none, &data, 0), NVML_ERROR_INVALID_ARGUMENT);
	IS(p_nvmlEventSetFree(set), NVML_SUCCESS);
}

int main(int argc, char **argv)
{
	if (argc != 2 || !(lib = dlopen(argv[1], RTLD_NOW))) {
		printf("%s\n", dlerror());
		return 2;
	}
	SYM(nvmlInit_v2);
	SYM(nvmlShutdown);
	SYM(nvmlDeviceGetHandleByIndex);
	nvmlDevice_t a = {NULL}, b = {NULL};
	IS(p_nvmlDeviceGetHandleByIndex(0, &a), NVML_ERROR_UNINITIALIZED);
	IS(p_nvmlInit_v2(), NVML_SUCCESS);
	IS(p_nvmlDeviceGetHandleByIndex(0, &a), NVML_SUCCESS);
	IS(p_nvmlDeviceGetHandleByIndex(1, &b), NVML_SUCCESS);
	check_processes(a, b);
	check_utilization(a, b);
	check_versions(a);
	check_arguments(a);
	check_events();
	IS(p_nvmlShutdown(), NVML_SUCCESS);
	return failures != 0;
}
