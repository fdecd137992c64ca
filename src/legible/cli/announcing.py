"""How long a study will take, said before anything long begins and again when more is known.

- `announce`: says it; mines and generalises in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from legible.cli.drawing import say
from legible.formatting import duration, number

if TYPE_CHECKING:
    from legible.cli.choice import StudyChoice
    from legible.study import Study

# Runs that take longer are announced.
WORTH_AN_ESTIMATE = 5.0


def announce(study: Study, choice: StudyChoice, *, without: tuple[str, ...] = ()) -> None:
    """Say how long it will take: before anything is played, and again when the rules are known.

    How fast episodes are played is measured both times: the machine may be busier meanwhile. What the experiences took
    is no measure, because workers were started and things compiled on the way.
    """
    from legible.study.estimate import estimate, measure_rate  # noqa: PLC0415

    if choice.as_json or study.is_played:
        study.generalise()
        return
    setup, limit = study.setup(), study.settings.time_limit or None
    if not (study.folder / "experiences.npz").exists():
        rate = measure_rate(setup, engine=study.engine, time_limit=limit)
        guess = estimate(setup, study.settings, study.engine, rate=rate).without(*without)
        if guess.seconds > WORTH_AN_ESTIMATE:
            say(
                f"This takes about {duration(guess.seconds)} ({number(rate.episodes)} episodes a second and worker, "
                f"workers: {guess.workers}; how many rules there will be is a guess)."
            )
    study.generalise()
    rate = measure_rate(setup, engine=study.engine, time_limit=limit)
    left = estimate(setup, study.settings, study.engine, len(study.rule_sets), rate=rate).without(*without)
    if left.seconds > WORTH_AN_ESTIMATE:
        total = number(sum(left.episodes.values()))
        more = ", and those that are searched" if left.episodes.get("search") else ""
        doubt = "less where little is found" if rate.is_varied else "more where something is found"
        say(
            f"{len(study.rule_sets)} rule sets to test, each a mined rule with what it becomes in related situations"
            f"{more}: {total} episodes, about {duration(left.seconds)}, {doubt}."
        )
    if "mistakes" not in without and study.looks_for_mistakes() and not study.has("mistakes"):
        steps = study.settings.mistakes.steps
        seconds = steps / (rate.steps * left.workers)
        say(f"Single decisions take up to {number(steps)} steps more, about {duration(seconds)} (--mistakes.steps).")
