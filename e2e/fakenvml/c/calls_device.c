// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// What a GPU is and how it does: identity, PCIe, temperature, power, clocks, ECC, NVLink, field values.

#include "fake.h"

#include <stdio.h>
#include <string.h>

// mig_name is what the driver calls a MIG device: the GPU's name and the instance's profile.
static nvmlReturn_t mig_name(const struct call *c, char *out, unsigned int len)
{
	char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE];
	const char *profile = "";
	for (unsigned int i = 0; i < c->gpu->instances_len; i++)
		for (unsigned int j = 0; c->gpu->instances[i].id == c->mig->gi && j < c->gpu->profiles_len; j++)
			if (c->gpu->profiles[j].profile == c->gpu->instances[i].profile)
				profile = c->gpu->profiles[j].name;
	snprintf(name, sizeof name, "%s %s", c->gpu->name, profile);
	return copy_string(out, len, name);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *out, unsigned int len)
{
	BEGIN(nvmlDeviceGetName, device, WANT_DEVICE);
	END(c.mig ? mig_name(&c, out, len) : copy_string(out, len, g->name));
}

GETTER_STRING(nvmlDeviceGetUUID, WANT_DEVICE, c.mig ? c.mig->uuid : g->uuid)
GETTER_STRING(nvmlDeviceGetSerial, WANT_GPU, g->serial)
GETTER_STRING(nvmlDeviceGetVbiosVersion, WANT_GPU, g->vbios)

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *out)
{
	BEGIN(nvmlDeviceGetIndex, device, WANT_DEVICE);
	NEED(out, INVALID_ARGUMENT);
	*out = 0;
	if (c.mig) {
		*out = c.mig->index;
		END(NVML_SUCCESS);
	}
	for (unsigned int i = 0; i < device_count(&c); i++) {
		struct nvmlDevice_st *h;
		device_at(&c, i, &h);
		if (h == device.handle) {
			*out = i;
			END(NVML_SUCCESS);
		}
	}
	END(NVML_ERROR_NOT_FOUND); // it came after Init
}

GETTER(nvmlDeviceGetMinorNumber, unsigned int, g->minor)
GETTER(nvmlDeviceGetArchitecture, nvmlDeviceArchitecture_t, g->architecture)

nvmlReturn_t nvmlDeviceGetAddressingMode(nvmlDevice_t device, nvmlDeviceAddressingMode_t *mode)
{
	BEGIN(nvmlDeviceGetAddressingMode, device, WANT_GPU);
	NEED(mode, INVALID_ARGUMENT);
	NEED_VERSION(mode->version, DeviceAddressingMode, 1);
	mode->value = g->addressing_mode;
	END(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetC2cModeInfoV(nvmlDevice_t device, nvmlC2cModeInfo_v1_t *info)
{
	BEGIN(nvmlDeviceGetC2cModeInfoV, device, WANT_GPU);
	NEED(info, INVALID_ARGUMENT);
	info->isC2cEnabled = g->addressing_mode == NVML_DEVICE_ADDRESSING_MODE_ATS;
	END(NVML_SUCCESS);
}

// put_pci writes what each version of the structure has: the first ends before the subsystem, the second before busId.
static void put_pci(const struct gpu *g, nvmlPciInfo_t *pci, int version)
{
	snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", g->domain & 0xFFFF, g->bus & 0xFF,
		 g->device & 0xFF);
	pci->domain = g->domain;
	pci->bus = g->bus;
	pci->device = g->device;
	if (version >= 2)
		pci->pciSubSystemId = 0;
	if (version >= 3)
		snprintf(pci->busId, sizeof pci->busId, "%s", g->bus_id);
}

#define PCI_INFO(fn, version)                                                                                          \
	nvmlReturn_t fn(nvmlDevice_t device, nvmlPciInfo_t *pci)                                                       \
	{                                                                                                              \
		BEGIN(fn, device, WANT_GPU);                                                                           \
		NEED(pci, INVALID_ARGUMENT);                                                                           \
		put_pci(g, pci, version);                                                                              \
		END(NVML_SUCCESS);                                                                                     \
	}

PCI_INFO(nvmlDeviceGetPciInfo, 1)
PCI_INFO(nvmlDeviceGetPciInfo_v2, 2)
PCI_INFO(nvmlDeviceGetPciInfo_v3, 3)

GETTER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned int, g->pcie_generation[0])
GETTER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned int, g->pcie_generation[1])
GETTER(nvmlDeviceGetCurrPcieLinkWidth, unsigned int, g->pcie_width[0])
GETTER(nvmlDeviceGetMaxPcieLinkWidth, unsigned int, g->pcie_width[1])
GETTER(nvmlDeviceGetPcieReplayCounter, unsigned int, g->pcie_replays)

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor, unsigned int *out)
{
	BEGIN(nvmlDeviceGetTemperature, device, WANT_GPU);
	NEED(out && sensor == NVML_TEMPERATURE_GPU, INVALID_ARGUMENT);
	*out = (unsigned int)g->temperature;
	END(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *t)
{
	BEGIN(nvmlDeviceGetTemperatureV, device, WANT_GPU);
	NEED(t, INVALID_ARGUMENT);
	NEED_VERSION(t->version, Temperature, 1);
	NEED(t->sensorType == NVML_TEMPERATURE_GPU, INVALID_ARGUMENT);
	t->temperature = g->temperature;
	END(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, nvmlTemperatureThresholds_t kind, unsigned int *out)
{
	BEGIN(nvmlDeviceGetTemperatureThreshold, device, WANT_GPU);
	NEED(out && (unsigned int)kind < NVML_TEMPERATURE_THRESHOLD_COUNT, INVALID_ARGUMENT);
	NEED(g->has_threshold[kind], NOT_SUPPORTED);
	*out = g->thresholds[kind];
	END(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t device, nvmlMarginTemperature_t *t)
{
	BEGIN(nvmlDeviceGetMarginTemperature, device, WANT_GPU);
	NEED(t, INVALID_ARGUMENT);
	NEED_VERSION(t->version, MarginTemperature, 1);
	NEED(g->has_margin, NOT_SUPPORTED);
	t->marginTemperature = g->margin;
	END(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetNumFans(nvmlDevice_t device, unsigned int *out)
{
	BEGIN(nvmlDeviceGetNumFans, device, WANT_GPU);
	NEED(out, INVALID_ARGUMENT);
	*out = g->fans_len;
	END(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetFanSpeed(nvmlDevice_t device, unsigned int *out)
{
	BEGIN(nvmlDeviceGetFanSpeed, device, WANT_GPU);
	NEED(out, INVALID_ARGUMENT);
	NEED(g->fans_len, NOT_SUPPORTED);
	*out = g->fans[0];
	END(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetFanSpeed_v2(nvmlDevice_t device, unsigned int fan, unsigned int *out)
{
	BEGIN(nvmlDeviceGetFanSpeed_v2, device, WANT_GPU);
	NEED(g->fans_len, NOT_SUPPORTED);
	NEED(out && fan < g->fans_len, INVALID_ARGUMENT);
	*out = g->fans[fan];
	END(NVML_SUCCESS);
}

GETTER(nvmlDeviceGetPowerUsage, unsigned int, (unsigned int)ramp_at(c.script, &g->power))
GETTER(nvmlDeviceGetPowerManagementLimit, unsigned int, g->power_limit)
GETTER(nvmlDeviceGetPowerManagementDefaultLimit, unsigned int, g->power_default)
GETTER(nvmlDeviceGetEnforcedPowerLimit, unsigned int, g->power_enforced)
GETTER(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, ramp_at(c.script, &g->energy))
GETTER(nvmlDeviceGetPerformanceState, nvmlPstates_t, (nvmlPstates_t)g->pstate)
GETTER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, g->reasons)
GETTER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, g->reasons)
GETTER(nvmlDeviceGetSupportedClocksEventReasons, unsigned long long, g->supported_reasons)
GETTER(nvmlDeviceGetSupportedClocksThrottleReasons, unsigned long long, g->supported_reasons)

nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned int *min, unsigned int *max)
{
	BEGIN(nvmlDeviceGetPowerManagementLimitConstraints, device, WANT_GPU);
	NEED(min && max, INVALID_ARGUMENT);
	*min = g->power_range[0];
	*max = g->power_range[1];
	END(NVML_SUCCESS);
}

#define CLOCK(fn, table)                                                                                               \
	nvmlReturn_t fn(nvmlDevice_t device, nvmlClockType_t type, unsigned int *out)                                  \
	{                                                                                                              \
		BEGIN(fn, device, WANT_GPU);                                                                           \
		NEED(out && (unsigned int)type < NVML_CLOCK_COUNT, INVALID_ARGUMENT);                                  \
		*out = g->table[type];                                                                                 \
		END(NVML_SUCCESS);                                                                                     \
	}

CLOCK(nvmlDeviceGetClockInfo, clocks)
CLOCK(nvmlDeviceGetMaxClockInfo, max_clocks)

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t *current, nvmlEnableState_t *pending)
{
	BEGIN(nvmlDeviceGetEccMode, device, WANT_GPU);
	NEED(current && pending, INVALID_ARGUMENT);
	*current = (nvmlEnableState_t)g->ecc_mode[0];
	*pending = (nvmlEnableState_t)g->ecc_mode[1];
	END(NVML_SUCCESS);
}

// ecc_count reads one counter; location COUNT stands for the sum. In MIG mode, the volatile ones are not to be had.
static nvmlReturn_t ecc_count(const struct gpu *g, unsigned int type, unsigned int counter, unsigned int location,
			      uint64_t *out)
{
	if (type >= NVML_MEMORY_ERROR_TYPE_COUNT || counter >= NVML_ECC_COUNTER_TYPE_COUNT ||
	    location > NVML_MEMORY_LOCATION_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!g->ecc_mode[0] || (g->mig_mode[0] && counter == NVML_VOLATILE_ECC))
		return NVML_ERROR_NOT_SUPPORTED;
	bool known = false;
	*out = 0;
	for (unsigned int i = 0; i < NVML_MEMORY_LOCATION_COUNT; i++) {
		if ((location == i || location == NVML_MEMORY_LOCATION_COUNT) && g->has_ecc[type][counter][i]) {
			*out += g->ecc[type][counter][i];
			known = true;
		}
	}
	return known ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter,
					 unsigned long long *out)
{
	BEGIN(nvmlDeviceGetTotalEccErrors, device, WANT_GPU);
	NEED(out, INVALID_ARGUMENT);
	uint64_t n;
	ret = ecc_count(g, type, counter, NVML_MEMORY_LOCATION_COUNT, &n);
	if (ret == NVML_SUCCESS)
		*out = n;
	END(ret);
}

nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, nvmlMemoryErrorType_t type,
					     nvmlEccCounterType_t counter, nvmlMemoryLocation_t location,
					     unsigned long long *out)
{
	BEGIN(nvmlDeviceGetMemoryErrorCounter, device, WANT_GPU);
	NEED(out && (unsigned int)location < NVML_MEMORY_LOCATION_COUNT, INVALID_ARGUMENT);
	uint64_t n;
	ret = ecc_count(g, type, counter, location, &n);
	if (ret == NVML_SUCCESS)
		*out = n;
	END(ret);
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *corrected, unsigned int *uncorrected,
				       unsigned int *pending, unsigned int *failed)
{
	BEGIN(nvmlDeviceGetRemappedRows, device, WANT_GPU);
	NEED(corrected && uncorrected && pending && failed, INVALID_ARGUMENT);
	NEED(!g->mig_mode[0], NOT_SUPPORTED);
	*corrected = g->remapped[0];
	*uncorrected = g->remapped[1];
	*pending = g->remapped[2];
	*failed = g->remapped[3];
	END(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, nvmlPageRetirementCause_t cause, unsigned int *count,
				       unsigned long long *addresses)
{
	BEGIN(nvmlDeviceGetRetiredPages, device, WANT_GPU);
	NEED(count && (unsigned int)cause < NVML_PAGE_RETIREMENT_CAUSE_COUNT, INVALID_ARGUMENT);
	unsigned int n = 0, room = *count;
	for (unsigned int i = 0; i < g->pages_len; i++)
		n += g->pages[i].cause == (uint32_t)cause;
	*count = n;
	NEED(room >= n, INSUFFICIENT_SIZE);
	for (unsigned int i = 0, j = 0; addresses && i < g->pages_len; i++)
		if (g->pages[i].cause == (uint32_t)cause)
			addresses[j++] = g->pages[i].address;
	END(NVML_SUCCESS);
}

GETTER(nvmlDeviceGetRetiredPagesPendingStatus, nvmlEnableState_t, (nvmlEnableState_t)g->retired_pending)

// LINK opens a call about one NVLink.
#define LINK(fn)                                                                                                       \
	BEGIN(fn, device, WANT_GPU);                                                                                   \
	NEED(out && link < MAX_LINKS, INVALID_ARGUMENT);                                                               \
	const struct link *l = &g->links[link];                                                                        \
	NEED(l->present, NOT_SUPPORTED)

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, nvmlEnableState_t *out)
{
	LINK(nvmlDeviceGetNvLinkState);
	*out = (nvmlEnableState_t)l->active;
	END(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned int link, nvmlNvLinkErrorCounter_t counter,
					     unsigned long long *out)
{
	LINK(nvmlDeviceGetNvLinkErrorCounter);
	NEED((unsigned int)counter < NVML_NVLINK_ERROR_COUNT, INVALID_ARGUMENT);
	*out = l->errors[counter];
	END(NVML_SUCCESS);
}

static nvmlReturn_t put_number(nvmlFieldValue_t *v, nvmlValueType_t type, uint64_t n)
{
	v->valueType = type;
	memset(&v->value, 0, sizeof v->value);
	switch (type) {
	case NVML_VALUE_TYPE_UNSIGNED_INT:
		v->value.uiVal = (unsigned int)n;
		break;
	case NVML_VALUE_TYPE_SIGNED_INT:
		v->value.siVal = (int)n;
		break;
	case NVML_VALUE_TYPE_UNSIGNED_SHORT:
		v->value.usVal = (unsigned short)n;
		break;
	case NVML_VALUE_TYPE_UNSIGNED_LONG:
		v->value.ulVal = (unsigned long)n;
		break;
	default:
		v->value.ullVal = n;
	}
	return NVML_SUCCESS;
}

static nvmlReturn_t ecc_field(const struct gpu *g, nvmlFieldValue_t *v, unsigned int type, unsigned int counter)
{
	uint64_t n;
	nvmlReturn_t ret = ecc_count(g, type, counter, NVML_MEMORY_LOCATION_COUNT, &n);
	return ret == NVML_SUCCESS ? put_number(v, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, n) : ret;
}

// derived_field answers fields that say what other statements say already.
static nvmlReturn_t derived_field(const struct call *c, nvmlFieldValue_t *v)
{
	const struct gpu *g = c->gpu;
	switch (v->fieldId) {
	case NVML_FI_DEV_ECC_CURRENT:
	case NVML_FI_DEV_ECC_PENDING:
		return put_number(v, NVML_VALUE_TYPE_UNSIGNED_INT, g->ecc_mode[v->fieldId - NVML_FI_DEV_ECC_CURRENT]);
	case NVML_FI_DEV_ECC_SBE_VOL_TOTAL:
		return ecc_field(g, v, NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_VOLATILE_ECC);
	case NVML_FI_DEV_ECC_DBE_VOL_TOTAL:
		return ecc_field(g, v, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC);
	case NVML_FI_DEV_ECC_SBE_AGG_TOTAL:
		return ecc_field(g, v, NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_AGGREGATE_ECC);
	case NVML_FI_DEV_ECC_DBE_AGG_TOTAL:
		return ecc_field(g, v, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_AGGREGATE_ECC);
	case NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION:
	case NVML_FI_DEV_ENERGY:
		return put_number(v, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, ramp_at(c->script, &g->energy));
	case NVML_FI_DEV_PCIE_REPLAY_COUNTER:
		return put_number(v, NVML_VALUE_TYPE_UNSIGNED_INT, g->pcie_replays);
	case NVML_FI_DEV_REMAPPED_COR:
	case NVML_FI_DEV_REMAPPED_UNC:
	case NVML_FI_DEV_REMAPPED_PENDING:
	case NVML_FI_DEV_REMAPPED_FAILURE:
		if (g->mig_mode[0])
			return NVML_ERROR_NOT_SUPPORTED;
		return put_number(v, NVML_VALUE_TYPE_UNSIGNED_INT, g->remapped[v->fieldId - NVML_FI_DEV_REMAPPED_COR]);
	case NVML_FI_DEV_POWER_AVERAGE:
	case NVML_FI_DEV_POWER_INSTANT:
		return put_number(v, NVML_VALUE_TYPE_UNSIGNED_INT, ramp_at(c->script, &g->power));
	case NVML_FI_DEV_POWER_MIN_LIMIT:
	case NVML_FI_DEV_POWER_MAX_LIMIT:
		return put_number(v, NVML_VALUE_TYPE_UNSIGNED_INT,
				  g->power_range[v->fieldId - NVML_FI_DEV_POWER_MIN_LIMIT]);
	case NVML_FI_DEV_POWER_DEFAULT_LIMIT:
		return put_number(v, NVML_VALUE_TYPE_UNSIGNED_INT, g->power_default);
	case NVML_FI_DEV_POWER_CURRENT_LIMIT:
		return put_number(v, NVML_VALUE_TYPE_UNSIGNED_INT, g->power_enforced);
	case NVML_FI_DEV_POWER_REQUESTED_LIMIT:
		return put_number(v, NVML_VALUE_TYPE_UNSIGNED_INT, g->power_limit);
	case NVML_FI_DEV_GET_GPU_RECOVERY_ACTION:
		return put_number(v, NVML_VALUE_TYPE_UNSIGNED_INT, g->recovery_action);
	default:
		return NVML_ERROR_NOT_SUPPORTED;
	}
}

static nvmlReturn_t field_value(const struct call *c, nvmlFieldValue_t *v)
{
	if (v->fieldId == 0 || v->fieldId >= NVML_FI_MAX)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (unsigned int i = 0; i < c->gpu->fields_len; i++) {
		const struct field *f = &c->gpu->fields[i];
		if (f->id != v->fieldId || f->scope != v->scopeId)
			continue;
		if (f->type != NVML_VALUE_TYPE_DOUBLE)
			return put_number(v, f->type, ramp_at(c->script, &f->value));
		v->valueType = f->type;
		v->value.dVal = f->real;
		return NVML_SUCCESS;
	}
	return derived_field(c, v);
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
	BEGIN(nvmlDeviceGetFieldValues, device, WANT_GPU);
	NEED(values && count > 0, INVALID_ARGUMENT);
	for (int i = 0; i < count; i++) {
		values[i].timestamp = (long long)script_now();
		values[i].latencyUsec = 0;
		values[i].nvmlReturn = field_value(&c, &values[i]);
	}
	END(NVML_SUCCESS);
}
