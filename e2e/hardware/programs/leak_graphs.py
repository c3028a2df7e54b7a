# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""A CUDA graph for each shape that comes: the graphs and their private pools stay."""

import program

p = program.Program("a CUDA graph is captured for each shape", leaks=True)
torch = p.torch()
graphs = {}
torch.ones(1024, 1024, device="cuda") * 2  # loads the kernel, which a capture may not do


def leak(n):
    # Input and output take half of it each; no shape comes twice.
    rows = n // 8192 - len(graphs) % 64
    x = torch.ones(rows, 1024, device="cuda")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2
    graphs[len(graphs)] = (graph, x, y)


p.run(program.trainer(torch), leak)
