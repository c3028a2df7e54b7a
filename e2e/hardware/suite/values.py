# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""Every series beside what nvidia-smi and nvidia-ml-py say."""

import json
import os
import re
import subprocess
import time

from suite import exporter as exposition
from suite import smi

MIB = 1 << 20


def scaled(factor):
    return lambda text: None if smi.number(text) is None else smi.number(text) * factor


def state(*yes):
    return lambda text: float(text in yes)


# A series, its labels, the paths under which nvidia-smi has had it, how its text
# is read, and how far two readings a second apart may lie from each other:
# absolutely, and as a share. What moves faster is compared again, see TRIES.
plain = scaled(1)
CLOCKS = (("graphics", "graphics_clock"), ("sm", "sm_clock"), ("memory", "mem_clock"), ("video", "video_clock"))
POWER = ("gpu_power_readings", "power_readings")
MAP = [
    ("gpu_memory_total_bytes", {}, ["fb_memory_usage/total"], scaled(MIB), MIB, 0),
    ("gpu_memory_reserved_bytes", {}, ["fb_memory_usage/reserved"], scaled(MIB), MIB, 0),
    ("gpu_memory_used_bytes", {}, ["fb_memory_usage/used"], scaled(MIB), 2 * MIB, 0),
    ("gpu_memory_free_bytes", {}, ["fb_memory_usage/free"], scaled(MIB), 2 * MIB, 0),
    ("gpu_bar1_memory_total_bytes", {}, ["bar1_memory_usage/total"], scaled(MIB), MIB, 0),
    ("gpu_bar1_memory_used_bytes", {}, ["bar1_memory_usage/used"], scaled(MIB), 2 * MIB, 0),
    ("gpu_temperature_celsius", {"sensor": "gpu"}, ["temperature/gpu_temp"], plain, 4, 0),
    ("gpu_temperature_celsius", {"sensor": "memory"}, ["temperature/memory_temp"], plain, 4, 0),
    ("gpu_temperature_margin_celsius", {}, ["temperature/gpu_temp_tlimit"], plain, 4, 0),
    ("gpu_temperature_threshold_celsius", {"threshold": "shutdown"}, ["temperature/gpu_temp_max_threshold"], plain, 0, 0),
    ("gpu_temperature_threshold_celsius", {"threshold": "slowdown"}, ["temperature/gpu_temp_slow_threshold"], plain, 0, 0),
    ("gpu_temperature_threshold_celsius", {"threshold": "gpu_max"}, ["temperature/gpu_temp_max_gpu_threshold"], plain, 0, 0),
    ("gpu_temperature_threshold_celsius", {"threshold": "memory_max"}, ["temperature/gpu_temp_max_mem_threshold"], plain, 0, 0),
    ("gpu_temperature_margin_threshold_celsius", {"threshold": "shutdown"}, ["temperature/gpu_temp_max_tlimit_threshold"], plain, 0, 0),
    ("gpu_temperature_margin_threshold_celsius", {"threshold": "slowdown"}, ["temperature/gpu_temp_slow_tlimit_threshold"], plain, 0, 0),
    ("gpu_temperature_margin_threshold_celsius", {"threshold": "gpu_max"}, ["temperature/gpu_temp_max_gpu_tlimit_threshold"], plain, 0, 0),
    ("gpu_temperature_margin_threshold_celsius", {"threshold": "memory_max"}, ["temperature/gpu_temp_max_mem_tlimit_threshold"], plain, 0, 0),
    ("gpu_fan_speed_ratio", {"fan": "0"}, ["fan_speed"], scaled(0.01), 0.05, 0),
    # The exporter's figure is a mean over a second on most GPUs, nvidia-smi's often is not.
    ("gpu_power_watts", {}, [p + "/" + leaf for p in POWER for leaf in ("average_power_draw", "instant_power_draw", "power_draw")], plain, 20, 0.3),
    ("gpu_power_limit_watts", {"limit": "enforced"}, [p + "/" + leaf for p in POWER for leaf in ("current_power_limit", "enforced_power_limit", "power_limit")], plain, 0.01, 0),
    ("gpu_power_limit_watts", {"limit": "management"}, [p + "/requested_power_limit" for p in POWER], plain, 0.01, 0),
    ("gpu_power_limit_watts", {"limit": "default"}, [p + "/default_power_limit" for p in POWER], plain, 0.01, 0),
    ("gpu_power_limit_watts", {"limit": "min"}, [p + "/min_power_limit" for p in POWER], plain, 0.01, 0),
    ("gpu_power_limit_watts", {"limit": "max"}, [p + "/max_power_limit" for p in POWER], plain, 0.01, 0),
    ("gpu_performance_state", {}, ["performance_state"], plain, 8, 0),
    ("gpu_ecc_enabled", {}, ["ecc_mode/current_ecc"], state("Enabled"), 0, 0),
    ("gpu_mig_enabled", {}, ["mig_mode/current_mig"], state("Enabled"), 0, 0),
    ("gpu_remapped_rows_total", {"type": "corrected"}, ["remapped_rows/remapped_row_corr"], plain, 0, 0),
    ("gpu_remapped_rows_total", {"type": "uncorrected"}, ["remapped_rows/remapped_row_unc"], plain, 0, 0),
    ("gpu_row_remap_pending", {}, ["remapped_rows/remapped_row_pending"], state("Yes"), 0, 0),
    ("gpu_row_remap_failed", {}, ["remapped_rows/remapped_row_failure"], state("Yes"), 0, 0),
    ("gpu_retired_pages", {"cause": "single_bit"}, ["retired_pages/multiple_single_bit_retirement/retired_count"], plain, 0, 0),
    ("gpu_retired_pages", {"cause": "double_bit"}, ["retired_pages/double_bit_retirement/retired_count"], plain, 0, 0),
    ("gpu_pcie_link_generation", {"state": "current"}, ["pci/pci_gpu_link_info/pcie_gen/current_link_gen"], plain, 5, 0),
    ("gpu_pcie_link_generation", {"state": "max"}, ["pci/pci_gpu_link_info/pcie_gen/max_link_gen"], plain, 0, 0),
    ("gpu_pcie_link_width", {"state": "current"}, ["pci/pci_gpu_link_info/link_widths/current_link_width"], plain, 0, 0),
    ("gpu_pcie_link_width", {"state": "max"}, ["pci/pci_gpu_link_info/link_widths/max_link_width"], plain, 0, 0),
    ("gpu_pcie_replays_total", {}, ["pci/replay_counter"], plain, 10, 0),
]
MAP += [("gpu_clock_hertz", {"clock": name}, ["clocks/" + leaf], scaled(1e6), 1.7e9, 0) for name, leaf in CLOCKS]
MAP += [("gpu_clock_max_hertz", {"clock": name}, ["max_clocks/" + leaf], scaled(1e6), 0, 0) for name, leaf in CLOCKS]
MAP += [
    ("gpu_%sutilization_ratio" % prefix, {}, ["utilization/%s_util" % leaf], scaled(0.01), 0.6, 0)
    for prefix, leaf in (("", "gpu"), ("memory_controller_", "memory"), ("encoder_", "encoder"), ("decoder_", "decoder"), ("jpeg_", "jpeg"), ("ofa_", "ofa"))
]
MAP += [
    (
        "gpu_ecc_errors_total",
        {"type": kind, "counter": counter, "location": location},
        ["ecc_errors/%s/%s_%s" % (counter, location, leaf)],
        plain, 0, 0,
    )
    for counter in ("volatile", "aggregate")
    for location in ("dram", "sram")
    for kind, leaf in (("corrected", "correctable"), ("uncorrected", "uncorrectable"))
]
REASONS = ("gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "sync_boost", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown")
MAP += [
    (
        "gpu_clock_event_active",
        {"reason": reason},
        ["clocks_event_reasons/clocks_event_reason_" + reason, "clocks_throttle_reasons/clocks_throttle_reason_" + reason],
        state("Active"), 0, 0,
    )
    for reason in REASONS
]
COUNTERS = (
    ("sw_power_cap", "sw_power_cap"), ("sync_boost", "sync_boost"), ("sw_thermal_slowdown", "sw_therm_slowdown"),
    ("hw_thermal_slowdown", "hw_therm_slowdown"), ("hw_power_brake_slowdown", "hw_power_brake"),
)
MAP += [
    ("gpu_clock_event_seconds_total", {"reason": reason}, ["clocks_event_reasons_counters/clocks_event_reasons_counters_" + leaf], scaled(1e-6), 5, 0)
    for reason, leaf in COUNTERS
]
IDENTITY = [
    ("name", ["product_name"]), ("serial", ["serial"]), ("vbios_version", ["vbios_version"]),
    ("pci_bus_id", ["pci_bus_id"]), ("driver_version", ["driver_version"]), ("cuda_version", ["cuda_version"]),
]


# How often all is compared before a difference counts: what jumps up and down lies
# beside both readings now and then, a wrong unit always.
TRIES = 6
ONLY_HERE = "only the exporter has it"


def near(ours, before, after, absolute, share):
    """Whether ours lies between two readings around it, give or take what is allowed."""
    low, high = min(before, after), max(before, after)
    slack = absolute + share * max(abs(low), abs(high))
    return low - slack <= ours <= high + slack


def relative(ours, theirs):
    """The difference as a text."""
    if ours == theirs:
        return "0"
    return "%+.3g %%" % (100 * (ours - theirs) / theirs) if theirs else "%+.3g" % (ours - theirs)


def labelled(name, labels):
    return name + ("{%s}" % ",".join('%s="%s"' % item for item in sorted(labels.items())) if labels else "")


class Comparison:
    """One comparison of all values of a GPU: nvidia-smi, a scrape, nvidia-smi."""

    def __init__(self, results, title, uuid, drift):
        self.results, self.title, self.uuid = results, title, uuid
        self.drift = drift  # bytes by which memory may move within a sample
        self.rows, self.compared = [], {"gpu_info"}
        self.problems, self.notes = [], []

    def row(self, source, series, ours, theirs, good, remark=""):
        self.rows.append([series, ours, theirs, relative(ours, theirs) if ours is not None and theirs is not None else None, source, remark or ("" if good else "DIFFERS")])
        if not good:
            self.problems.append("%s: %s is %s, %s says %s" % (self.title, series, "absent" if ours is None else "%.6g" % ours, source, "nothing" if theirs is None else "%.6g" % theirs))

    def against_smi(self, metrics, before, after):
        used = set()
        for name, labels, paths, read, absolute, share in MAP:
            path, text = before.first(paths)
            used.update(paths)
            ours = exposition.value(metrics, name, uuid=self.uuid, **labels)
            first = read(text) if text is not None else None
            again = after.text(path) if path else None
            second = read(again) if again is not None else first
            series = labelled(name, labels)
            self.compared.add(name)
            if name in ("gpu_memory_used_bytes", "gpu_memory_free_bytes"):
                absolute += self.drift
            if ours is None and first is None:
                continue
            if first is None:
                self.row("nvidia-smi", series, ours, None, True, ONLY_HERE)
            elif ours is None:
                self.row("nvidia-smi", series, None, second, False, "MISSING in the exporter")
            else:
                self.row("nvidia-smi", series, ours, second, near(ours, first, second, absolute, share))
        self._identity(metrics, before, used)
        self._processes(metrics, before, after)
        rest = sorted(path for path in before.leaves if path not in used and re.match(r"-?\d", before.text(path) or ""))
        self.notes.append("%s: numbers of nvidia-smi without a counterpart here: %s" % (self.title, ", ".join(rest) or "none"))

    def _identity(self, metrics, gpu, used):
        info = exposition.select(metrics, "gpu_info", uuid=self.uuid)
        for label, paths in IDENTITY:
            path, theirs = gpu.first(paths)
            used.update(paths)
            ours = info[0][0].get(label) if info else None
            if theirs is None and not ours:
                continue
            same = (ours or "").lower() == (theirs or "").lower()
            self.rows.append(["gpu_info{%s}" % label, ours, theirs, None, "nvidia-smi", "" if same else "DIFFERS"])
            if not same:
                self.problems.append("%s: gpu_info has %s=%r, nvidia-smi says %r" % (self.title, label, ours, theirs))

    def _processes(self, metrics, before, after):
        ours = {int(l["pid"]): v for l, v in exposition.select(metrics, "gpu_process_memory_used_bytes", uuid=self.uuid)}
        self.compared.add("gpu_process_memory_used_bytes")
        both = set(before.processes) & set(after.processes)
        for pid in sorted(both):
            first, second = before.processes[pid], after.processes[pid]
            series = 'gpu_process_memory_used_bytes{pid="%d"}' % pid
            if first is None or second is None:
                continue
            mine = ours.get(pid)
            self.row("nvidia-smi", series, mine, second, mine is not None and near(mine, first, second, 2 * MIB + self.drift, 0))
        for pid in sorted(set(ours) - set(before.processes) - set(after.processes)):
            self.row("nvidia-smi", 'gpu_process_memory_used_bytes{pid="%d"}' % pid, ours[pid], None, True, ONLY_HERE)

    def against_nvml(self, metrics, before, after):
        """The same against nvidia-ml-py, which has bytes where nvidia-smi has MiB."""
        for key, first in before.items():
            if key not in after:
                continue  # a process that has ended
            name, labels, absolute, share = first["name"], first["labels"], first["absolute"], first["share"]
            second = after[key]
            self.compared.add(name)
            ours = exposition.value(metrics, name, uuid=self.uuid, **labels)
            if name.startswith("gpu_memory_") or name.startswith("gpu_process_"):
                absolute += self.drift
            good = ours is not None and near(ours, first["value"], second["value"], absolute, share)
            self.row("nvidia-ml-py", labelled(name, labels), ours, second["value"], good)

    def finish(self, metrics):
        """Reports it."""
        for problem in self.problems:
            self.results.problem(problem)
        alone = sorted({n for n, l in metrics if dict(l).get("uuid") == self.uuid and n not in self.compared and not n.startswith(("gpu_leak", "gpu_process_leak", "gpu_detector"))})
        for note in self.notes + ["%s: series without a counterpart there: %s" % (self.title, ", ".join(alone) or "none")]:
            self.results.note(note)
        rows, about = self.rows, ""
        if self.drift:  # the table at idle has them all
            rows = [row for row in self.rows if row[3] not in ("0", None) or row[5] not in ("", ONLY_HERE)]
            about = "%d values that are equal, or in one place only, are left out." % (len(self.rows) - len(rows))
        self.results.table(self.title, ["series", "exporter", "other", "difference", "other is", ""], rows, about)


def nvml_values(python, library, uuid):
    """What nvidia-ml-py reads; None and the reason where it cannot."""
    found, why = read_by("nvml_values.py", python, library, uuid)
    return (None if found is None else {e["key"]: e for e in found}), why


def read_by(reader, python, library, uuid):
    """What one of the readers in this folder prints, in a process of its own; None and the reason where it fails."""
    reader = os.path.join(os.path.dirname(__file__), reader)
    try:
        done = subprocess.run([python, reader, uuid, library or ""], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, universal_newlines=True)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, str(error)
    if done.returncode != 0:
        return None, (done.stderr.strip().splitlines() or ["no word"])[-1]
    return json.loads(done.stdout), ""


def kept_utilization(results, title, python, library, uuid):
    """Notes how many samples of the utilisation of processes the driver keeps."""
    kept, why = read_by("nvml_utilization.py", python, library, uuid)
    if kept is None:
        return results.skip(title + ", samples of utilisation", why)
    results.note("%(title)s: the driver keeps %(samples)d samples of the utilisation of %(processes)d processes, of one %(most)d at most, over %(span).1f s" % dict(kept, title=title))


def compare(results, title, exporter, uuid, python, library, drift=0):
    """Compares all values, again while the same ones differ. drift is by how many bytes a second
    memory may move."""
    print(title, flush=True)
    lasting = None
    for _ in range(TRIES):
        skipped, comparison, metrics = once(results, title, exporter, uuid, python, library, drift)
        about = {re.sub(r"\d[\d.e+-]*", "", problem): problem for problem in comparison.problems}
        lasting = [what for what in about if lasting is None or what in lasting]
        comparison.problems = [about[what] for what in lasting]
        if not lasting:
            break
    for what, why in skipped:
        results.skip(title + ", " + what, why)
    comparison.finish(metrics)


def once(results, title, exporter, uuid, python, library, drift):
    """One comparison: what was skipped and why, the comparison, and the scrape."""
    smi_before, why = nvidia_smi()
    skipped = [("nvidia-smi", why)] if why else []
    nvml_before, why = nvml_values(python, library, uuid)
    skipped += [("nvidia-ml-py", why)] if why else []
    time.sleep(2.5)  # longer than both sampling intervals: what is scraped was read after the first reading
    metrics = exporter.metrics()
    comparison = Comparison(results, title, uuid, 3 * drift)
    if nvml_before is not None:
        nvml_after, why = nvml_values(python, library, uuid)
        skipped += [("nvidia-ml-py", why)] if why else []
    if smi_before is not None:
        smi_after, why = nvidia_smi()
        skipped += [("nvidia-smi", why)] if why else []
        if smi_after is None:
            pass
        elif uuid in smi_before and uuid in smi_after:
            comparison.against_smi(metrics, smi_before[uuid], smi_after[uuid])
        else:
            comparison.problems.append("%s: nvidia-smi does not list %s" % (title, uuid))
    if nvml_before is not None and nvml_after is not None:
        comparison.against_nvml(metrics, nvml_before, nvml_after)
    return skipped, comparison, metrics


def nvidia_smi():
    """What nvidia-smi says; None and the reason where it cannot."""
    try:
        return smi.query(), ""
    except (OSError, RuntimeError, subprocess.TimeoutExpired, smi.ElementTree.ParseError) as error:
        return None, str(error)
