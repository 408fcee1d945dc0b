"""Tasks whose method, quota, moment and options do not go together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from effsparse_cli.errors import UsageError
from effsparse_cli.pruning import SCORES
from effsparse_cli.study.phases import METHODS, check_epochs, check_task
from tests.study.tiny import make_task


@pytest.mark.parametrize("method", [*SCORES, *METHODS])
def test_every_method_with_its_defaults(method: str) -> None:
    check_task(make_task(method))


def test_methods_and_their_options_are_documented() -> None:
    text = (Path(__file__).parents[3] / "docs" / "study.md").read_text(encoding="utf-8")
    for name, method in METHODS.items():
        options = ", ".join(f"`{option} = {default}`" for option, default in method.options.items())
        assert f"| `{name}` | {method.paper} | {options} |\n" in text


@pytest.mark.parametrize(
    ("method", "changes", "message"),
    [
        ("dense", {}, "its compression is 1, not 10"),
        ("snip", {"compression": 1}, "must be greater than 1"),
        ("snip", {"compression": float("nan")}, "must be greater than 1"),
        ("sni", {}, "snip"),
        ("snip", {"when": "training"}, "when is 'training': use init or trained"),
        ("rigl", {"when": "init"}, "when is 'init': use training"),
        ("snip", {"lsq": "erkk"}, "erk"),
        ("rigl", {"options": {"rounds": 3}}, "no option 'rounds'. Its options: alpha, every, end"),
        ("snip", {"options": {"rounds": 3}}, "snip has no option 'rounds'. Its options: samples"),
        ("random", {"options": {"samples": 3}}, "random has no option 'samples'. It has no options"),
        ("rigl", {"options": {"alpha": "x"}}, "alpha is 'x': use a number"),
        ("rigl", {"options": {"alpha": 1.5}}, "alpha is 1.5: it must be between 0 and 1"),
        ("imp", {"options": {"rounds": 1.5}}, "rounds is 1.5: use a whole number"),
        ("gmp", {"options": {"begin": 0.9, "end": 0.1}}, r"begin is 0\.9, which is after end, 0\.1"),
        ("gmp", {"options": {"begin": 0.8}}, r"begin is 0\.8, which is after end, 0\.75"),
        ("dense", {"compression": 1, "options": {"rounds": 1}}, "method dense has no option 'rounds'"),
        ("random", {"lsq": "igq", "options": {"rounds": 1}}, "method random with lsq igq has no option 'rounds'"),
        ("cs", {"options": {"temperature": 0.5}}, r"temperature is 0\.5: it must be at least 1"),
        ("set", {"compact": True}, "set changes them"),
    ],
)
def test_bad_tasks(method: str, changes: dict[str, Any], message: str) -> None:
    compression = changes.pop("compression", 10)
    with pytest.raises(UsageError, match=message):
        check_task(make_task(method, compression, **changes))


@pytest.mark.parametrize("method", ["imp", "cs"])
def test_weights_are_rewound_to_an_epoch_of_the_training(method: str) -> None:
    task = make_task(method, options={"rewind": 5})
    check_epochs(task, 6)
    with pytest.raises(UsageError, match="rewound to epoch 5, but training has only 5"):
        check_epochs(task, 5)


@pytest.mark.parametrize(("method", "when", "word"), [("gmp", "training", "during"), ("lamp", "trained", "after")])
def test_methods_that_need_training(method: str, when: str, word: str) -> None:
    task = make_task(method, when=when)
    check_epochs(task, 1)
    with pytest.raises(UsageError, match=f"{method} prunes {word} training, but the recipe has 0 epochs"):
        check_epochs(task, 0)
    check_epochs(make_task("snip"), 0)
