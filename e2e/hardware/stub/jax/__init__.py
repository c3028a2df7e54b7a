# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""A stub of JAX with the calls that leak_jax.py uses."""

__version__ = "0.stub"


def default_backend():
    return "gpu"
