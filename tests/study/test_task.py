"""Tasks: equal ones have equal hashes, different ones different hashes, and their names are safe."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from effsparse_cli.study.task import FORMAT_VERSION, StudyTask, task_id, task_name, task_text

TASK = StudyTask(
    model="lenet-300-100",
    data={"kind": "mnist", "path": "data", "train": None},
    method="random",
    lsq="igq",
    compression=100,
    effective=True,
    when="init",
    seed=0,
    recipe={"epochs": 2, "drops": [1], "lr": 0.1},
    options={},
)
CHANGES: dict[str, Any] = {
    "model": "lenet-5",
    "data": {"kind": "mnist", "path": "data", "train": 10},
    "method": "synflow",
    "lsq": "erk",
    "compression": 100.5,
    "effective": False,
    "when": "trained",
    "seed": 1,
    "recipe": {"epochs": 2, "drops": [1], "lr": 0.2},
    "options": {"rounds": 100},
    "compact": True,
}
JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), st.lists, max_leaves=5)


@pytest.mark.parametrize("field", [each.name for each in fields(StudyTask)])
def test_every_field_decides_the_hash(field: str) -> None:
    assert task_id(replace(TASK, **{field: CHANGES[field]})) != task_id(TASK)


def test_the_hash_ignores_order_and_how_a_number_is_written() -> None:
    same = replace(TASK, compression=100.0, recipe={"lr": 0.1, "drops": (1.0,), "epochs": 2.0})
    assert task_id(same) == task_id(TASK)


def test_the_hash_is_the_same_in_every_run() -> None:
    assert task_id(TASK) == "86b2fd418a12"


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4), st.floats(1, 1e9), st.integers(0, 2**63))
def test_a_task_reads_back_from_its_text(recipe: dict[str, Any], compression: float, seed: int) -> None:
    task = replace(TASK, recipe=recipe, compression=compression, seed=seed)
    document = json.loads(task_text(task))
    assert document.pop("format_version") == FORMAT_VERSION
    again = StudyTask(**document)
    assert again == task
    assert task_id(again) == task_id(task)


@given(st.text(max_size=200), st.text(max_size=200))
def test_names_are_safe_whatever_the_model_is_called(model: str, lsq: str) -> None:
    name = task_name(replace(TASK, model=model, lsq=lsq))
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789._-")
    assert not name.startswith((".", "-"))
    assert ".." not in name
    assert len(name.encode()) < 255


def test_names_say_what_the_task_is() -> None:
    assert task_name(TASK).startswith("lenet_300_100-random-igq-effective100x-seed0-")
    assert task_name(replace(TASK, method="dense", compression=1)).startswith("lenet_300_100-dense-seed0-")
