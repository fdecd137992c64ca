"""Questions about a policy that need no study: try rules, compare, verify, measure the symmetry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from legible.imports import lazy_exports

if TYPE_CHECKING:
    from legible.study.symmetry import SymmetryScore
    from legible.workbench.arena import Arena, open_arena
    from legible.workbench.checks import Checks, export_checks, read_checks
    from legible.workbench.comparing import PolicyComparison, compare_policies
    from legible.workbench.cross_play import CrossPlay, play_against
    from legible.workbench.exploiting import Exploit, exploit
    from legible.workbench.symmetry import measure_symmetry
    from legible.workbench.trying import RuleResult, TryResult, try_rule
    from legible.workbench.verifying import CheckResult, Verification, verify, verify_policy

__all__, __getattr__, __dir__ = lazy_exports(__name__)
