"""Description length in bits (Quinlan 1995, as used by Cohen), the stopping criterion of RIPPER.

- `theory_length`: bits of a rule.
- `data_length`: bits of the exceptions to rules.
- `subset_length`: bits of a subset.
"""

from __future__ import annotations

import math


def subset_length(total: float, chosen: float, chance: float) -> float:
    """Return the bits of a subset whose elements are each chosen with this chance.

    >>> subset_length(4, 2, 0.5)
    4.0
    """
    chosen_bits = -chosen * math.log2(chance) if chosen > 0 else 0.0
    other_bits = -(total - chosen) * math.log2(1 - chance) if total > chosen else 0.0
    return chosen_bits + other_bits


def theory_length(k: int, n_conditions: int) -> float:
    """Return the bits of a rule with k of n possible conditions: ½·(‖k‖ + S(n, k, k/n)).

    ‖k‖ codes the number k itself in log₂ k + 2·log₂ log₂ k bits. The half is Cohen's: conditions are redundant.
    """
    if k == 0:
        return 0.0
    number_bits = math.log2(k)
    if k > 1:
        number_bits += 2 * math.log2(number_bits)
    return 0.5 * (number_bits + subset_length(n_conditions, k, k / n_conditions))


def data_length(p: int, n: int, P: int, N: int) -> float:
    """Return the bits of the exceptions to rules that cover p of P positives and n of N negatives.

    They code the number of exceptions, the negative covered rows and the positive uncovered rows.
    """
    covered, uncovered, missed = p + n, P + N - p - n, P - p
    false_positives = subset_length(covered, n, n / covered) if covered else 0.0
    false_negatives = subset_length(uncovered, missed, missed / uncovered) if uncovered else 0.0
    return math.log2(P + N + 1) + false_positives + false_negatives
