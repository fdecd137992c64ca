"""``legible compare``: which of several policies is better, by how much, and where."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click
from rich.markup import escape

from legible.cli.choice import (
    PlayChoice,
    load_typed_policy,
    look_here_for_policy,
    names_code,
    open_study,
    options_of_policy,
    player_source,
)
from legible.cli.completion import complete_env_or_folder
from legible.cli.drawing import Bars, out, print_json, print_list, say, table, tell
from legible.cli.options import PATH, count_option, playing_options
from legible.errors import LegibleError
from legible.formatting import capitalise, number, percent

if TYPE_CHECKING:
    from legible.environments import EnvironmentSpec
    from legible.workbench import PolicyComparison
    from legible.workbench.cross_play import CrossPlay


@click.command
@click.argument(
    "words",
    metavar="ENV A B…",
    nargs=-1,
    required=True,
    help="Environment and two or more policies; a policy may also be the folder of a study, and the environment is "
    "then that of the study if it comes first.",
    shell_complete=complete_env_or_folder,
)
@click.option("--name", metavar="NAME", multiple=True, help="Name of a policy, in the order given; repeatable.")
@count_option("--episodes", 1000, "Number of seeds.", least=50)
@click.option(
    "--against",
    metavar="POLICY|random",
    multiple=True,
    help="Opponent in the other seats of a game of several agents; repeatable. Each policy plays against each.",
)
@click.option(
    "--html",
    metavar="FILE",
    type=PATH,
    help="Also write a report: with the two most different episodes, or the matrix of --against.",
)
@click.option("--no-habits", is_flag=True, help="Do not look for habits that only one of two policies has.")
@playing_options("Sample the policies' actions instead of taking the best one.")
def compare(
    choice: PlayChoice,
    words: tuple[str, ...],
    name: tuple[str, ...],
    episodes: int,
    against: tuple[str, ...],
    html: Path | None,
    no_habits: bool,
) -> None:
    """Compare policies on the same seeds: which is better, by how much, and where."""
    # `words` are the environment and the policies, `name` their names, `against` opponents in a game of several agents,
    # `episodes` the number of seeds, `html` a report to write. `choice` has the options that several commands share.
    with Bars(quiet=choice.as_json) as bars:
        bars.now("loading the policies and the environment")
        from legible.workbench import compare_policies, play_against  # noqa: PLC0415

        env, *policies = words
        # A study stands for its policy. If it comes first, also for its environment: then all words are policies.
        if Path(env, "study.json").is_file():
            choice.refuse_for_study(env)
            where, policies = open_study(Path(env), trust=choice.trust).environment, list(words)
        else:
            where = choice.spec(env)
        if len(policies) < (1 if against else 2):
            raise LegibleError("give ENV and at least two policies: legible compare CartPole-v1 old.zip new.zip.")
        # In a game of several agents with --against, every policy plays every opponent; otherwise compare in pairs.
        opponents = [player_source(_named_from_here(opponent), choice.policy_output) for opponent in against]
        chosen = _load_policies(where, policies, opponents, choice)
        shared: dict[str, Any] = {
            "names": name or policies,
            "episodes": episodes,
            "engine": choice.quick_engine(),
            "seed": choice.seed,
            "features": choice.features,
            "feature_names": choice.names,
            "stochastic": choice.stochastic,
            "cache": not choice.no_cache,
            "progress": bars,
        }
        if against:
            cross_play = play_against(where, chosen, opponents, opponent_names=against, **shared)
        else:
            comparison = compare_policies(where, *chosen, habits=not no_habits, **shared)
    if html is not None:
        from legible.report.comparison import write_comparison, write_cross_play  # noqa: PLC0415

        if against:
            write_cross_play(cross_play, html)
        else:
            write_comparison(comparison, html)
    if choice.as_json:
        result = cross_play if against else comparison
        print_json({**result.to_dict(), **({} if html is None else {"report": html})})
        return
    if against:
        _print_cross_play(cross_play)
    else:
        print_comparison(comparison)
    if html is not None:
        say(f"Report: {html}")


def _named_from_here(opponent: str) -> str:
    """Return an opponent as workers find it: a file by its whole path."""
    look_here_for_policy(opponent)
    return str(Path(opponent).resolve()) if Path(opponent).exists() else opponent


def _load_policies(
    where: EnvironmentSpec, words: Sequence[str], against: Sequence[Any], choice: PlayChoice
) -> list[Any]:
    """Return the policies to compare, in their order; a folder of a study gives the study.

    `words` are the policies as the user wrote them: files, addresses, code, or folders of studies. With `against`,
    opponents in the other seats of a game, a study gives its policy alone.
    """
    from legible.workbench.cross_play import against as playing_against  # noqa: PLC0415

    # Policies are loaded for the spaces of the game, which do not depend on the opponent: take the first.
    game = playing_against(where, against[0]) if against else where
    policies: list[Any] = []
    for word in words:
        if Path(word, "study.json").is_file():
            study = open_study(Path(word), trust=choice.trust)
            policies.append(study.policy if against else study)
            continue
        # --policy-output and --fallback are for policies that are code; other files say these facts themselves.
        left_out = () if names_code(word) else ("output", "fallback")
        options = {name: value for name, value in options_of_policy(vars(choice)).items() if name not in left_out}
        policies.append(load_typed_policy(game, word, options, trust=choice.trust))
    return policies


def _print_cross_play(cross_play: CrossPlay) -> None:
    """Print the matrix of policies and opponents, with the worst opponents."""
    tell(f"[bold]{escape(cross_play.headline())}[/]", markup=True)
    print_matrix(cross_play)
    for policy in range(len(cross_play.policies) if len(cross_play.policies) > 1 else 0):
        tell(cross_play.worst_sentence(policy))
    tell(cross_play.level_sentence())


def print_matrix(cross_play: CrossPlay) -> None:
    """Print the mean return of every policy against every opponent."""
    columns = ("Mean return", *(f"against {name}" for name in cross_play.opponents), "worst")
    out().print(table(columns, cross_play.rows()))


def print_comparison(comparison: PolicyComparison) -> None:
    """Print a comparison of policies: which is better, by how much, how episodes end, where they differ, and habits.

    Situations (states from which one policy does better) and habits are only known for two policies.
    """
    console = out()
    tell(f"[bold]{escape(comparison.headline())}[/]", markup=True)
    if comparison.is_same:
        return
    # The figures: a ranking of several policies, or all objectives of two. Ranks may be a range where it is uncertain.
    if len(comparison.policies) > 2:
        rows = []
        for i, (best_rank, worst_rank) in comparison.ranking:
            figure = comparison.policies[i].figures["mean"]
            rank = str(best_rank) if best_rank == worst_rank else f"{best_rank} to {worst_rank}"
            mean_return = f"{number(figure.value)} ({number(figure.low)} to {number(figure.high)})"
            rows.append((rank, comparison.names[i], mean_return))
        console.print(table(("Rank", "Policy", "Mean return (95 % CI each)"), rows))
    else:
        columns = ("", comparison.names[0], comparison.names[1], f"{comparison.names[1]} − {comparison.names[0]}")
        cells = [difference.cells() for difference in comparison.differences]
        console.print(table(columns, [(capitalise(row[0]), *row[1:]) for row in cells]))
    # How episodes end, with the share of episodes of every policy.
    endings = list(dict.fromkeys(ending for policy in comparison.policies for ending in policy.endings))
    if endings:
        ending_rows = []
        for ending in endings:
            shares = [percent(policy.endings.get(ending, 0.0)) for policy in comparison.policies]
            ending_rows.append((capitalise(ending), *shares))
        console.print(table(("How episodes end", *comparison.names), ending_rows, right=comparison.names))
    # The ledger splits the difference by ending, reward term and time.
    if comparison.ledger is not None and comparison.ledger.sentence():
        tell(f"Where the difference comes from: {comparison.ledger.sentence()}")
    tell(comparison.level_sentence())
    if len(comparison.policies) == 2:
        _print_situations_and_habits(comparison)


def _print_situations_and_habits(found: PolicyComparison) -> None:
    """Print from which states one of two policies does better, and habits that only one of them has."""
    if found.situations:
        out().print("[bold]Where[/] (learned on half of the seeds, tested on the other half)")
        print_list(situation.sentence(found.space, found.names) for situation in found.situations)
    else:
        tell(f"Where: no situation explains the difference ({number(found.parted)} episodes differ).")
    for title, sentences in found.habit_sentences():
        out().print(f"[bold]{escape(title)}[/]")
        print_list(sentences)
