"""``legible try``: the verdict on your own rules."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click
from rich.markup import escape
from rich.padding import Padding

from legible.cli.choice import PlayChoice, look_here_for_policy, open_study, options_of_policy
from legible.cli.completion import complete_env_or_folder
from legible.cli.drawing import Bars, out, print_json, print_list, say, tell
from legible.cli.options import PATH, count_option, playing_options, relations_option
from legible.errors import LegibleError
from legible.formatting import duration, number, percent

if TYPE_CHECKING:
    from legible.features import FeatureSpace
    from legible.workbench.trying import RuleResult

# Seconds between figures that are printed while episodes are played.
_FIGURES_EVERY = 1.0


def minutes_option(help_text: str) -> Any:
    """``--minutes``."""
    return click.option("--minutes", metavar="N", type=click.FloatRange(min=0.0, min_open=True), help=help_text)


def margin_option(name: str, help_text: str) -> Any:
    """``--relevant`` or ``--margin``: a number of points."""
    return click.option(name, metavar="X", type=click.FloatRange(min=0.0, min_open=True), help=help_text)


class _RuleCommand(click.RichCommand):
    """A command whose arguments may be rules such as '-Left <- angle > 0', which are no options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options and the arguments; rules come last."""
        rules = [word for word in args if "<-" in word or "←" in word]
        others = [word for word in args if word not in rules and word != "--"]
        return super().parse_args(ctx, [*others, "--", *rules])


@click.command("try", cls=_RuleCommand)
@click.argument(
    "words",
    metavar="ENV POLICY RULE…",
    nargs=-1,
    required=True,
    help="Environment, policy and rules such as '+Brake <- gap < 5'; or the folder of a study and rules.",
    shell_complete=complete_env_or_folder,
)
@click.option("--confirm", is_flag=True, help="Test on fresh seeds: a verdict to rely on.")
@margin_option("--relevant", "Smallest effect of interest in points. [default: 2 % of the scale of the task]")
@click.option("--alone", is_flag=True, help="Try rules without their related forms.")
@click.option("--save", metavar="STUDY", type=PATH, help="Add the rules to this study.")
@count_option("--seeds", 10_000, "Maximum number of seeds.", least=200)
@minutes_option("Time limit, checked whenever results are judged.")
@relations_option
@playing_options("Sample the policy's actions instead of taking the best one.")
def try_command(
    choice: PlayChoice,
    words: tuple[str, ...],
    confirm: bool,
    relevant: float | None,
    alone: bool,
    save: Path | None,
    seeds: int,
    minutes: float | None,
    relations: tuple[str, ...],
) -> None:
    """Test whether your own rules help a policy, harm it, or have no effect.

    Only episodes that a rule changes are played, in pairs with the same seeds, until the verdict is clear.
    """
    # `words` are an environment, a policy and rules, or a study and rules. `relevant` is the smallest effect of
    # interest, `alone` leaves out the related forms of rules, `save` is a study to add the rules to. `choice` has the
    # options for playing.
    is_study = Path(words[0], "study.json").is_file()
    needed = 2 if is_study else 3
    if len(words) < needed:
        raise LegibleError(
            "give ENV, POLICY and at least one RULE, or STUDY and at least one RULE, such as: legible try CartPole-v1 "
            "policy.zip '+Left <- pole.angle < 0'."
        )
    with Bars(quiet=choice.as_json) as bars:
        bars.now("loading the policy and the environment")
        from legible.workbench import try_rule  # noqa: PLC0415

        where: Any
        options: dict[str, Any] = {}
        if is_study:
            choice.refuse_for_study(words[0], relations=relations)
            where, policy, rules = open_study(Path(words[0]), trust=choice.trust), None, words[1:]
        else:
            where, policy, rules = choice.spec(words[0]), words[1], words[2:]
            look_here_for_policy(words[1])
            options = {
                "names": choice.names,
                "features": choice.features,
                "relations": relations or None,
                "seed": choice.seed,
                "stochastic": choice.stochastic,
                "cache": not choice.no_cache,
                "policy_options": options_of_policy(vars(choice)),
            }
        tried = try_rule(
            where,
            policy,
            *rules,
            related=not alone,
            confirm=confirm,
            relevant=relevant,
            most_seeds=seeds,
            minutes=minutes,
            save=save,
            trust=choice.trust,
            on_figures=None if choice.as_json else _FigurePrinter(),
            engine=choice.quick_engine(),
            progress=bars,
            **options,
        )
    if choice.as_json:
        print_json(tried.to_dict())
        return
    # For every rule, alone and with its related forms: the verdict in a sentence and the override rate. Examples of
    # changed decisions are those of the rule alone.
    console = out()
    for result in tried.rules:
        related = f", with its {len(result.rule_set)} related forms" if result.form != "alone" else ""
        console.print(f"[bold]{escape(result.rule_set.short_text(tried.space))}[/]{related}", soft_wrap=True)
        rates = f" It changes {percent(result.override_rate)} of the steps." if result.changed else ""
        console.print(Padding(escape(f"{result.sentence()}{rates}"), (0, 0, 0, 2)))
        print_list(example.text() for example in (result.examples if result.form == "alone" else ()))
    tell(f"Smallest effect of interest: ±{number(tried.relevant)}. {tried.level_sentence()}")
    tell(f"Seeds: {tried.seeds_sentence()}. {duration(tried.seconds).capitalize()}.")
    if save is not None:
        say(f"The rules are in {save}; 'legible run {save}' tests them with all others.")


class _FigurePrinter:
    """Prints figures while episodes are played, at most once in `_FIGURES_EVERY` seconds."""

    def __init__(self) -> None:
        self._last, self._has_shown_states = -_FIGURES_EVERY, False

    def __call__(self, results: Sequence[RuleResult], space: FeatureSpace) -> None:
        now = time.monotonic()
        if now - self._last < _FIGURES_EVERY:
            return
        self._last = now
        for result in results:
            related = "" if result.form == "alone" else " (related forms)"
            rate = f" It changes {percent(result.override_rate)} of the steps." if result.changed else ""
            say(f"[dim]{escape(f'{result.rule_set.short_text(space)}{related}: {result.sentence()}{rate}')}[/]")
            if not self._has_shown_states and result.examples:
                say(f"[dim]  For example, {escape(result.examples[0].text())}[/]")
        self._has_shown_states = True
