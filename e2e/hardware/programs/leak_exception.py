# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""Exceptions that are kept: each holds its frame, and the frame the batch."""

import program

p = program.Program("exceptions that are kept hold their frames", leaks=True)
torch = p.torch()
errors = []


def serve(n):
    batch = torch.ones(n // 4, device="cuda")
    raise ValueError("cannot answer a batch of %d numbers" % batch.shape[0])


def leak(n):
    try:
        serve(n)
    except ValueError as error:
        errors.append(error)


p.run(program.trainer(torch), leak)
