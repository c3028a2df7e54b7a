# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""The parts of the hardware suite; run.py beside this folder runs them."""
