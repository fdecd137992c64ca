"""Domains and environments of other packages, through the entry-point group ``legible.domains``."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

# A third party's package: a light module with the record, and one with the environment.
DOMAIN = """
from legible.environments import Domain

DOMAIN = Domain("pond", ids="third/Pond", classes=("third_party.pond:Pond",), success={".*": "the duck is home"})
ENVIRONMENTS = {"third/Pond-v0": {"entry_point": "third_party.pond:Pond"}}
"""
POND = """
import numba, gymnasium

class Pond(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Box(-1, 1, (2,)), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}
"""


@pytest.fixture
def third_party(tmp_path: Path) -> Path:
    """A folder with an installed package that ships a domain, and one whose domain is broken."""
    package, metadata = tmp_path / "third_party", tmp_path / "third_party-1.0.dist-info"
    package.mkdir()
    metadata.mkdir()
    (package / "__init__.py").touch()
    (package / "domain.py").write_text(DOMAIN)
    (package / "pond.py").write_text(POND)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[legible.domains]\npond = third_party.domain\nbroken = third_party.nowhere\n"
    )
    return tmp_path


def run(program: str, folder: Path) -> str:
    """Run a program in a new process that can import from the folder, and return its output."""
    head = f"import sys, warnings\nsys.path.insert(0, {str(folder)!r})\nwarnings.simplefilter('ignore')\n"
    words = [sys.executable, "-c", head + textwrap.dedent(program)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_third_party_ships_a_domain_and_a_broken_one_is_named(third_party: Path) -> None:
    program = """
        from legible.environments import all_domains
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            names = {domain.name for domain in all_domains()}
        from legible.environments import EnvironmentSpec, domain_of
        from legible.environments.domains import success_words
        env = EnvironmentSpec("third/Pond-v0").make()
        print(*(str(warning.message) for warning in caught))
        print({"pond", "pacman", "highway", "cartpole"} <= names)
        print(domain_of(env).name, domain_of("third/Pond-v0").name, success_words(env))
        """
    warning, complete, pond = run(program, third_party).splitlines()
    assert "'broken'" in warning
    assert "third_party.nowhere" in warning
    assert (complete, pond) == ("True", "pond pond the duck is home")


@pytest.mark.parametrize(
    "program",
    [
        "from legible.environments import all_domains; all_domains()",
        "import legible, gymnasium; gymnasium.spec('legible/PacmanSmall-v0')",
        "import gymnasium, legible; gymnasium.spec('legible/Highway-v0')",
        "import legible_envs, gymnasium; gymnasium.spec('farama/Merge-v0')",
        "from legible.environments import EnvironmentSpec; import gymnasium; gymnasium.spec('legible/Merge-v0')",
    ],
)
def test_listing_domains_imports_no_heavy_packages(program: str, tmp_path: Path) -> None:
    shown = run(
        f"{program}\nprint([name for name in ('numba', 'pacai', 'highway_env') if name in sys.modules])", tmp_path
    )
    assert shown.strip() == "[]"


def test_plain_gymnasium_users_name_the_package(tmp_path: Path) -> None:
    program = "import gymnasium; print(gymnasium.make('legible_envs:legible/PacmanSmall-v0').observation_space.shape)"
    assert run(program, tmp_path).strip() == "(69,)"
