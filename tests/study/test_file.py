"""Study files: what they expand to, what is wrong with bad ones, and that the schema says the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from effsparse_cli.errors import EffsparseError, LoadError, UsageError
from effsparse_cli.formats.architectures import ARCHITECTURES
from effsparse_cli.study import keys
from effsparse_cli.study.data import READERS
from effsparse_cli.study.file import expand_study, locate_data, parse_study, read_study
from effsparse_cli.study.methods import LSQS, METHODS, WHEN
from effsparse_cli.study.task import task_id
from tests.study.studies import BASE, RECIPE, find_recipe, parse, to_toml

SCHEMA = json.loads((Path(keys.__file__).parent / "schema.json").read_text(encoding="utf-8"))

GOOD: list[dict[str, Any]] = [
    {},
    {"title": "One"},
    {"model": "torchvision.models:resnet18"},
    {"compressions": 7},
    {"compressions": ["10x", 2.5, "1000"]},
    {"compressions": None, "sparsities": [0.9, "99%"]},
    {"seeds": [3, 5]},
    {"effective": False, "methods": ["gmp", "imp", "set", "rigl", "cs", "dense"]},
    {"methods": [{"method": "magnitude", "when": "init", "seeds": 1, "options": {"rounds": 3, "names": ["a", "b"]}}]},
    {
        "recipe": {
            "epochs": 2,
            "drops": [1],
            "batch": 8,
            "lr": 0.5,
            "momentum": 0,
            "decay": 1e-3,
            "augment": ["flip"],
            "device": "cpu",
        }
    },
    {"data": {"kind": "code", "path": "my.data:build", "train": 100, "test": 10}},
    {"compact": True},
]
BAD: list[tuple[dict[str, Any], str]] = [
    ({"compresions": [1]}, "study.toml: unknown key 'compresions'; did you mean 'compressions'?"),
    ({"model": None}, "'model' is missing"),
    ({"model": "lenet"}, "study.toml, model lenet: unknown; did you mean lenet-5?"),
    ({"model": "a b:c"}, "'a b:c' does not have the form package.module:function"),
    ({"model": 3}, "3 is not a string"),
    ({"data": {"kind": "mnist"}}, "[data]: 'path' is missing"),
    ({"data": {"kind": "mnst", "path": "x"}}, "did you mean mnist?"),
    ({"data": {"kind": "mnist", "path": "x", "tran": 3}}, "[data]: unknown key 'tran'; did you mean 'train'?"),
    ({"data": {"kind": "mnist", "path": "x", "train": 0}}, "0 is not an integer of at least 1"),
    ({"data": "mnist"}, "[data] is not a table"),
    ({"methods": []}, "use a list of methods"),
    ({"methods": ["snipp"]}, "methods[0], method snipp: unknown; did you mean snip?"),
    ({"methods": [{"lsq": "igq"}]}, "methods[0]: 'method' is missing"),
    ({"methods": [{"method": "snip", "lsq": "iqg"}]}, "did you mean igq?"),
    ({"methods": [{"method": "snip", "lsq": []}]}, "the list is empty"),
    ({"methods": [{"method": "snip", "when": "later"}]}, "choices: init, trained, training"),
    ({"methods": [{"method": "snip", "options": {"rounds": {}}}]}, "options, rounds: {}: use finite numbers"),
    ({"recipe": {"batch": 1}}, "batch: 1 is not an integer of at least 2"),
    ({"title": ""}, "title: '' is empty"),
    ({"compressions": [0.5]}, "study.toml, compressions, 0.5: a compression must be greater than 1"),
    ({"compressions": [True]}, "True is not a compression"),
    ({"compressions": None, "sparsities": [1]}, "a sparsity must be between 0 and 1"),
    ({"compressions": None, "sparsities": [99]}, "did you mean 99% (0.99)?"),
    ({"sparsities": [0.9]}, "use either 'compressions' or 'sparsities', not both"),
    ({"seeds": 0}, "0 is neither a number of seeds"),
    ({"seeds": [-1]}, "[-1] is neither a number of seeds"),
    ({"effective": 1}, "1 is neither true nor false"),
    ({"recipe": {"epoch": 1}}, "[recipe]: unknown key 'epoch'; did you mean 'epochs'?"),
    ({"recipe": {"lr": -1}}, "-1 is not a non-negative number"),
    ({"recipe": {"lr": "0.1"}}, "'0.1' is not a non-negative number"),
    ({"recipe": {"drops": 3}}, "3 is not a list"),
]
IMPOSSIBLE: list[tuple[dict[str, Any], str]] = [
    ({"methods": [{"method": "gmp", "when": "init"}]}, "when: 'init' is not possible for gmp: use 'training'"),
    (
        {"methods": [{"method": "snip", "when": "training"}]},
        "'training' is not possible for snip: use 'init' or 'trained'",
    ),
    ({"methods": [{"method": "dense", "lsq": "igq"}]}, "dense takes no layerwise quota"),
    ({"methods": [{"method": "dense", "compressions": [2]}]}, "dense is not pruned"),
    ({"methods": ["rigl"], "effective": True}, "add effective = false"),
    ({"compressions": None}, "no compressions"),
    ({"sparsities": [0.9]}, "study.toml: use either 'compressions' or"),
    (
        {"recipe": {"epochs": 1, "methods": ["snip"]}},
        "[recipe]: 'methods' belongs to the study: move it above [recipe]",
    ),
    ({"methods": None, "data": {**BASE["data"], "methods": ["snip"]}}, "[data]: 'methods' belongs to the study"),
    ({"data": {"kind": "mnist", "path": "x", "size": 10}}, "'size' is for folders of images, not for mnist"),
    ({"data": {"kind": "code", "path": "data/mnist"}}, "does not have the form package.module:function"),
]


def changed(change: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**BASE, **change}.items() if value is not None}


def is_valid(document: dict[str, Any]) -> bool:
    return bool(Draft202012Validator(SCHEMA).is_valid(document))


@pytest.mark.parametrize("change", GOOD, ids=str)
def test_good_files_are_read_and_fit_the_schema(change: dict[str, Any]) -> None:
    tasks = expand_study(parse(changed(change)), find_recipe)
    assert len({task_id(task) for task in tasks}) == len(tasks) > 0
    assert is_valid(changed(change))


@pytest.mark.parametrize(("change", "message"), BAD, ids=str)
def test_bad_files_have_a_clear_error_and_do_not_fit_the_schema(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(changed(change))
    assert message in str(caught.value)
    assert not is_valid(changed(change))


@pytest.mark.parametrize("number", ["inf", "-inf", "nan", "1" + 400 * "0"])
@pytest.mark.parametrize("where", ["recipe = {lr = %s}", "methods = [{method = 'cs', options = {initial = %s}}]"])
def test_numbers_must_be_finite(where: str, number: str) -> None:
    key = where.split()[0]
    text = to_toml({name: each for name, each in BASE.items() if name != key}) + where % number
    with pytest.raises(UsageError, match=r"is not a (non-negative )?number|is too large|use finite numbers"):
        parse_study(text, Path("study.toml"))


@pytest.mark.parametrize(("change", "message"), IMPOSSIBLE, ids=str)
def test_impossible_combinations_have_a_clear_error(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(changed(change))
    assert message in str(caught.value)


def test_the_schema_has_the_same_keys_and_choices() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    known = SCHEMA["properties"]
    method = known["methods"]["items"]["oneOf"][1]["properties"]
    assert list(known) == list(keys.STUDY_KEYS)
    assert list(method) == list(keys.METHOD_KEYS)
    assert list(known["data"]["properties"]) == list(keys.DATA_KEYS)
    assert list(known["recipe"]["properties"]) == list(keys.RECIPE_KEYS)
    assert method["method"]["enum"] == known["methods"]["items"]["oneOf"][0]["enum"] == list(METHODS)
    assert method["lsq"]["oneOf"][0]["enum"] == list(LSQS)
    assert method["when"]["enum"] == list(WHEN)
    assert known["data"]["properties"]["kind"]["enum"] == list(READERS)
    assert known["model"]["oneOf"][0]["enum"] == list(ARCHITECTURES)


def test_a_study_is_the_product_of_its_lists() -> None:
    tasks = expand_study(parse({**BASE, "recipe": {"epochs": 2}}), find_recipe)
    assert [(t.method, t.lsq, t.compression, t.seed) for t in tasks] == [
        (method, lsq, compression, seed)
        for method, lsq in (("snip", ""), ("random", "igq"), ("random", "from:synflow"))
        for compression in (10, 100)
        for seed in (0, 1)
    ]
    assert all(task.effective and task.when == "init" for task in tasks)
    assert tasks[0].recipe == {**RECIPE, "epochs": 2}


def test_methods_override_the_study() -> None:
    rows = [{"method": "lamp", "sparsities": ["75%"], "effective": False, "seeds": [7]}, "dense"]
    lamp, *dense = expand_study(parse({**BASE, "methods": rows}), find_recipe)
    assert (lamp.compression, lamp.effective, lamp.when, lamp.seed) == (4, False, "trained", 7)
    assert [(task.compression, task.lsq, task.seed) for task in dense] == [(1, "", 0), (1, "", 1)]


def test_a_task_is_listed_once() -> None:
    assert len(expand_study(parse({**BASE, "methods": ["snip", {"method": "SNIP"}]}), find_recipe)) == 4


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("random", {"method": "random", "lsq": "igq"}),
        ("snip", {"method": "snip", "lsq": "global", "options": {"samples": 0}}),
        ("gmp", {"method": "gmp", "lsq": "uniform", "options": {"begin": 0, "every": 100}}),
        ("imp", {"method": "imp", "lsq": "global"}),
    ],
)
def test_defaults_that_are_spelled_out_make_no_other_task(short: str, full: dict[str, Any]) -> None:
    one, other = (expand_study(parse({**BASE, "methods": [method]}), find_recipe) for method in (short, full))
    assert one == other
    both = expand_study(parse({**BASE, "methods": [short, full]}), find_recipe)
    assert both == one


def test_options_and_quotas_that_are_not_the_default_are_kept() -> None:
    rows = [
        {"method": "gmp", "options": {"begin": 0.1, "every": 100}},
        {"method": "magnitude", "lsq": "global"},
        {"method": "cs", "options": {"rounds": True}},
    ]
    tasks = expand_study(parse({**BASE, "methods": rows, "compressions": [10], "seeds": 1}), find_recipe)
    assert [(task.lsq, task.options) for task in tasks] == [
        ("uniform", {"begin": 0.1}),
        ("global", {}),
        ("", {"rounds": True}),
    ]


def test_data_lies_beside_the_study_file() -> None:
    (task, *_) = expand_study(parse(BASE), find_recipe)
    assert locate_data(task, Path("/studies")).data["path"] == "/studies/data/mnist"
    (own, *_) = expand_study(parse({**BASE, "data": {"kind": "code", "path": "my.data:build"}}), find_recipe)
    assert locate_data(own, Path("/studies")) == own


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"model = ", "is not valid TOML"),
        (b"\xff", "not UTF-8"),
        (b"seeds = " + b"9" * 5000, "is not valid TOML"),
        (b"seeds = 0x" + b"f" * 5000, "many digits"),
    ],
)
def test_unreadable_files(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "study.toml").write_bytes(content)
    with pytest.raises(EffsparseError, match=message):
        read_study(tmp_path / "study.toml")


def test_files_of_windows_editors_are_read(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(f"\ufeff{to_toml(BASE)}".replace("\n", "\r\n"), encoding="utf-8")
    assert read_study(tmp_path / "study.toml").model == "lenet-300-100"


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="cannot be read: No such file"):
        read_study(tmp_path / "study.toml")


def test_code_is_recognized() -> None:
    assert not parse(BASE).runs_code
    assert parse({**BASE, "model": "my.models:build"}).runs_code
    assert parse({**BASE, "data": {"kind": "code", "path": "my.data:build"}}).runs_code
    assert parse_study(to_toml(BASE), Path("study.toml")).model == "lenet-300-100"
