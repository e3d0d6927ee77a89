"""Measures the rates of the cost model on this machine, in a few seconds."""

from __future__ import annotations

import os
from dataclasses import replace

import torch

from mgnni.bench.measure import seconds
from mgnni.errors import check_choice
from mgnni.graph.synthetic import random_propagation
from mgnni.plan.cost import MACHINES, Machine

WIDTH = 32  # columns of the measured products
NEAR, FAR = 2**13, 2**20  # nodes of graphs whose columns fit into caches, and do not
DEGREE = 10
REPEATS = 3
DENSE = 2**15  # rows of the measured dense product
BLOCK = 2**23  # numbers of the measured transfer, as many as a block of rows has


def calibrate(device: torch.device) -> Machine:
    """Return a description of this machine with measured rates of products.

    What is not measured, the speed of links between devices and of the disk, is that of a usual
    machine.

    Args:
        device (torch.device): The device.
    """
    usual = MACHINES["cpu" if device.type == "cpu" else "h200"]
    near, far = (_product_rate(nodes, device) for nodes in (NEAR, FAR))
    a, b = torch.ones(DENSE, WIDTH, device=device), torch.ones(WIDTH, 2 * WIDTH, device=device)
    took = min(seconds(lambda: a @ b, device, 4) for _ in range(REPEATS + 1))
    flops = 2 * DENSE * WIDTH * 2 * WIDTH / took
    if device.type == "cuda":
        memory = float(torch.cuda.get_device_properties(device).total_memory)
        rates = {"rate": far, "flops": flops, "host": transfer_rate(device)}
        return replace(usual, name="this GPU", memory=memory, **rates)
    memory = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return replace(
        usual, name="this CPU", rate=near, far_rate=min(near, far), flops=flops, memory=memory
    )


def transfer_rate(device: torch.device) -> float:
    """Return bytes per second from pageable memory of the host to a device.

    Args:
        device (torch.device): The device.
    """
    x = torch.ones(BLOCK)
    took = min(seconds(lambda: x.to(device, copy=True), device) for _ in range(REPEATS + 1))
    return 4 * BLOCK / took


def _product_rate(nodes: int, device: torch.device) -> float:
    """Return entries times columns per second of a product with a random graph."""
    graph = random_propagation(nodes, DEGREE * nodes, device=device)
    x = torch.ones(nodes, WIDTH, device=device)
    out = torch.empty_like(x)
    graph.multiply_into(out, x)
    took = min(seconds(lambda: graph.multiply_into(out, x), device) for _ in range(REPEATS))
    return graph.pattern.nnz * WIDTH / took


def find_machine(name: str) -> Machine:
    """Return a known machine, or ``"this"`` one, measured.

    Args:
        name (str): One of :data:`mgnni.plan.cost.MACHINES`, or ``"this"``.
    """
    if name == "this":
        return calibrate(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    return MACHINES[check_choice("machine", name, (*MACHINES, "this"))]
