# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

class Device:
    def __init__(self, ordinal):
        pass

    def use(self):
        pass
