"""GPUs, and the shares of their data sheets that kernels reach."""

from __future__ import annotations

from dataclasses import dataclass

TERA = 1e12
GIGA = 1e9


@dataclass(frozen=True, slots=True)
class Gpu:
    """Data sheet of a GPU."""

    name: str
    bandwidth: float
    """Bytes per second of its memory."""
    flops_16: float
    """Dense FLOP per second in BF16."""
    flops_8: float
    """Dense FLOP per second in FP8; without FP8 units as in BF16."""
    link: float
    """Bytes per second to its neighbours in one direction; PCIe if it has no NVLink."""
    memory: float
    """Bytes."""


# NVIDIA data sheets of A100 80GB SXM, H100 SXM5, H200 SXM and L40S; FLOP without sparsity.
A100 = Gpu("A100", 2.039 * TERA, 312 * TERA, 312 * TERA, 300 * GIGA, 80 * GIGA)
H100 = Gpu("H100", 3.35 * TERA, 989 * TERA, 1979 * TERA, 450 * GIGA, 80 * GIGA)
H200 = Gpu("H200", 4.8 * TERA, 989 * TERA, 1979 * TERA, 450 * GIGA, 141 * GIGA)
L40S = Gpu("L40S", 0.864 * TERA, 362 * TERA, 733 * TERA, 32 * GIGA, 48 * GIGA)


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Shares of the data sheet that kernels reach; each server draws its own from the ranges below."""

    bandwidth: float
    """Share of the memory bandwidth."""
    compute: float
    """Share of the FLOP per second."""
    sharpness: float
    """Exponent p of the roofline's bend, (t_memory^p + t_compute^p)^(1/p): infinite is a sharp bend."""


BANDWIDTH_SHARES = (0.65, 0.85)
"""Llama-3.1-8B alone on an H100: 133 tokens per second, 64 % of the bandwidth with all overheads (vLLM pull
request 16937); copy kernels reach about 90 %."""
COMPUTE_SHARES = (0.45, 0.70)
"""Model FLOP utilisation of large prefills in BF16 on A100 and H100; cuBLAS alone reaches 70 to 80 %."""
SHARPNESSES = (2.5, 6.0)
"""Assumed. Loads and multiplications of a tile overlap only in part near the ridge point. 2.5 is 32 % over
the sharp bend there, 6 is 12 %."""


def roofline(efficiency: Efficiency, memory_seconds: float, compute_seconds: float) -> float:
    """Return the seconds of kernels with these times by memory and by compute alone, at full efficiency."""
    p = efficiency.sharpness
    memory = memory_seconds / efficiency.bandwidth
    compute = compute_seconds / efficiency.compute
    longer, shorter = max(memory, compute), min(memory, compute)
    return longer * (1 + (shorter / longer) ** p) ** (1 / p) if longer else 0.0
