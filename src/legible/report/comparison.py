"""Reports of comparisons, each in one HTML file: of policies on the same seeds, and against several opponents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from markupsafe import Markup

from legible.evaluation.units import UNGUIDED, Unit, record_episode
from legible.files import write_text
from legible.formatting import signed
from legible.report.action_words import ActionWords
from legible.report.builder import as_script, asset, plain_script, template_environment
from legible.report.charts import interval_scale
from legible.report.replays import (
    MOST_FEATURES,
    REPLAY_BUDGET,
    describe_replay,
    first_difference,
    no_window,
    replay_side,
)
from legible.report.scenes import scene_of
from legible.workbench import PolicyComparison
from legible.workbench.cross_play import CrossPlay


def write_comparison(comparison: PolicyComparison, path: str | Path) -> Path:
    """Write the report of a comparison into one HTML file, and return its path."""
    with no_window():
        replays = [shown for shown in (_replay(comparison, episode) for episode in comparison.extremes) if shown]
    script = Markup("\n").join([plain_script("player.js"), *map(asset, ("lanes.js", "report.js"))])
    return _write(
        "comparison.html.j2", path, c=comparison, script=script, replays=as_script(replays), count=len(replays)
    )


def write_cross_play(found: CrossPlay, path: str | Path) -> Path:
    """Write the matrix of a cross-play into one HTML file, and return its path."""
    means = [cell.mean for cells in found.cells for cell in cells]
    return _write("cross_play.html.j2", path, c=found, scale=interval_scale(means))


def _write(template: str, path: str | Path, **values: Any) -> Path:
    target = Path(path)
    text = template_environment().get_template(template).render(style=asset("report.css"), **values)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_text(target, text)
    return target


def _replay(comparison: PolicyComparison, episode: int) -> dict[str, Any] | None:
    """Return an episode of both policies as data for the player; None if it cannot be repeated."""
    seed, space = comparison.seeds[episode], comparison.space
    action_words = ActionWords(space)
    recordings = [record_episode(setup, Unit((UNGUIDED,), (seed,)), 0) for setup in comparison.setups]
    results = [policy.result[episode] for policy in comparison.policies]
    budget = REPLAY_BUDGET // 4  # a comparison shows at most two seeds, each with an episode of both policies
    sides = []
    for setup, recording, result in zip(comparison.setups, recordings, results, strict=True):
        env, scene = scene_of(setup.environment, space, range(min(MOST_FEATURES, len(space))), budget)  # type: ignore[arg-type]
        sides.append(replay_side(env, scene, recording, [], result, action_words))
        env.close()
    if None in sides:
        return None
    # The data of a replay; both scenes are of the same kind.
    gap = float(results[1].returns - results[0].returns)
    return {
        **describe_replay(seed, f"{signed(gap)} for {comparison.names[1]}", scene, action_words),
        "names": comparison.names,
        "tracks": comparison.names,
        "branches_at": first_difference(recordings),
        "sides": sides,
    }
