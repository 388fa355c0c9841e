"""Student's t distribution, for intervals of means."""

from __future__ import annotations

import math

import numpy as np


def student_95(freedom: int) -> float:
    """Return the t that Student's distribution of `freedom` degrees exceeds in size with a probability of 0.05.

    With theta = atan(t / sqrt(n)), P(|T| < t) is a finite sum of powers of cos(theta): M. Abramowitz and I. A. Stegun,
    "Handbook of Mathematical Functions" (1964), 26.7.3 and 26.7.4. It rises with theta, which bisection finds.
    """
    odd = freedom % 2
    k = np.arange(1 + odd, freedom - 1, 2)
    factors = np.cumprod(np.concatenate([[1.0], k / (k + 1)]))[: freedom // 2]
    powers = odd + 2 * np.arange(len(factors))

    def within(theta: float) -> float:
        terms = math.sin(theta) * float((factors * math.cos(theta) ** powers).sum())
        return 2.0 / math.pi * (theta + terms) if odd else terms

    low, high = 0.0, math.pi / 2
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if within(middle) < 0.95 else (low, middle)
    return math.tan(high) * math.sqrt(freedom)
