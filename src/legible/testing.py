"""Assertions about policies, for pytest.

- `assert_not_worse`: a new policy loses less than a margin compared with an old one.
- `assert_no_weakness`: rules would gain a policy less than a margin.

Both raise an `AssertionError` with the reason in one line; `UndecidedError` if there were too few episodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from legible.environments import EnvironmentSpec
    from legible.policies import Policy
    from legible.rules import Rule, RuleSet
    from legible.workbench import Verification

__all__ = ["UndecidedError", "assert_no_weakness", "assert_not_worse"]


class UndecidedError(AssertionError):
    """The claim is neither shown nor violated; more seeds would decide."""


def assert_not_worse(
    new: str | Path | Policy,
    old: str | Path | Policy,
    env: str | EnvironmentSpec,
    *,
    margin: float | None = None,
    **options: Any,
) -> Verification:
    """Assert that a new policy is not worse than an old one: that its mean return is at most a margin lower.

    Both play the same seeds, more and more until the answer is clear. The result has the figures and the verdict. A
    violated claim raises `AssertionError`, an undecided one its subclass `UndecidedError`.

    Parameters
    ----------
    new, old
        Files of policies, or policies.
    env
        Id of the environment, or an `EnvironmentSpec` with arguments and wrappers.
    margin
        Largest loss that is allowed, in points; by default 2 % of the scale of the task, which is the larger one of the
        distance to random play and the standard deviation of returns.
    options
        Further arguments of `legible.workbench.verify_policy`, such as ``most_seeds``.
    """
    from legible.workbench import verify_policy  # noqa: PLC0415 (it needs PyTorch)

    return _assert(verify_policy(env, new, old, margin=margin, **options))


def assert_no_weakness(
    policy: str | Path | Policy,
    env: str | EnvironmentSpec,
    rules: Sequence[str | Rule | RuleSet],
    *,
    margin: float | None = None,
    **options: Any,
) -> Verification:
    """Assert that a policy would gain less than a margin of mean return by following any of the rules.

    The policy plays with and without each rule on the same seeds, more and more until the answer is clear. The result
    has the figures and the verdict. A violated claim raises `AssertionError`, an undecided one its subclass
    `UndecidedError`.

    Parameters
    ----------
    policy
        File of the policy, or the policy.
    env
        Id of the environment, or an `EnvironmentSpec` with arguments and wrappers.
    rules
        Rules such as ``"+Brake <- gap < 5"`` (if the gap is below 5, brake), each tested alone; a `RuleSet` is tested
        as a whole.
    margin
        Largest gain that is allowed, in points; by default 2 % of the scale of the task, which is the larger one of the
        distance to random play and the standard deviation of returns.
    options
        Further arguments of `legible.workbench.verify_policy`, such as ``most_seeds``.
    """
    from legible.workbench import verify_policy  # noqa: PLC0415 (it needs PyTorch)

    return _assert(
        verify_policy(env, policy, rules=[rules] if isinstance(rules, str) else rules, margin=margin, **options)
    )


def _assert(found: Verification) -> Verification:
    if found.exit_code == 1:
        raise AssertionError(found.headline())
    if found.exit_code:
        raise UndecidedError(found.headline())
    return found
