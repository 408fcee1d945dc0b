"""`effsparse study init` writes a study file for every figure of the paper, and `plot` draws it."""

from __future__ import annotations

from pathlib import Path

import pytest

from effsparse_cli.report.studies.figures import FIGURES as PLOTS
from effsparse_cli.study.file import expand_study, parse_study
from effsparse_cli.study.paper import FIGURES, SCALES, write_paper_study
from tests.commands.conftest import Run
from tests.study.fake import find_recipe

NAMES = [(name, model) for name, figure in FIGURES.items() for model in figure.models]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(("name", "model"), NAMES)
def test_every_figure_is_a_valid_study(name: str, model: str, scale: str) -> None:
    study = parse_study(write_paper_study(name, model=model, scale=scale), Path(name))
    tasks = expand_study(study, find_recipe)
    assert study.model == model
    assert {task.effective for task in tasks if task.method != "dense"} in ({True}, {False}, {True, False})
    assert all(plot.split()[0] in PLOTS for plot in FIGURES[name].plots)
    small, full = (
        len(expand_study(parse_study(write_paper_study(name, model=model, scale=each), Path(name)), find_recipe))
        for each in ("small", "full")
    )
    assert small < full


def test_figures_say_what_the_paper_says() -> None:
    """Captions: three seeds of five in Figure 3, no Uniform+ for LeNet-300-100 in Figure 9."""
    assert "seeds = 5" in write_paper_study("figure3")
    assert "uniform+" not in write_paper_study("figure9", model="lenet-300-100")
    assert "uniform+" in write_paper_study("figure9", model="lenet-5")
    assert '"lamp", when = "trained"' in write_paper_study("figure7")
    assert "epochs = 0" in write_paper_study("figure10")


def test_folders_of_images_are_found(study: Run) -> None:
    Path("images", "train").mkdir(parents=True)
    Path("studies").mkdir()
    for data, file, kind in (
        ("images", "a.toml", "images"),
        ("../images", "studies/b.toml", "images"),
        ("images", "studies/c.toml", "cifar10"),
    ):
        assert study("init", "figure8", "--model", "lenet-5", "--data", data, "-o", file).code == 0
        assert f'kind = "{kind}"' in Path(file).read_text()


def test_compact_training(study: Run) -> None:
    assert study("init", "figure8", "--compact-training").code == 0
    assert parse_study(Path("figure8.toml").read_text(), Path("figure8.toml")).compact


def test_init_writes_a_file_once(study: Run) -> None:
    done = study("init", "figure2", "--scale", "small", "--data", 'my "data"')
    assert done.code == 0
    assert "figure2.toml written" in done.err
    text = Path("figure2.toml").read_text()
    assert 'path = "my \\"data\\""' in text
    again = study("init", "figure2")
    assert again.code == 2
    assert "figure2.toml exists" in again.message
    assert Path("figure2.toml").read_text() == text
    assert study("init", "figure8", "--model", "lenet-5", "-o", "other.toml").code == 0
    comments = Path("other.toml").read_text()
    assert "# effsparse study run other.toml\n# effsparse study plot other --kind quotas" in comments
    assert "Run it with: effsparse study run 'my study.toml'" in study("init", "figure2", "-o", "my study.toml").err
    assert "# effsparse study plot 'my study' --kind" in Path("my study.toml").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["figure1"], "FIGURE figure1: unknown; did you mean figure11?"),
        (["figure8", "--model", "mobilenet-v2", "--compact-training"], "mobilenet-v2 has dropout"),
        (["figure2", "-o", "."], "-o . is a folder. Use a file"),
        (["figure2", "-o", ".."], "-o .. is a folder. Use a file"),
        (["figure2", "--model", "resnet50"], "--model resnet50: figure2 of the paper has lenet-300-100 only"),
        (["figure2", "--compact-training"], "--compact-training: figure2 prunes to direct compressions"),
        (["figure2", "--scale", "tiny"], "--scale tiny: unknown; choices: full, small"),
    ],
)
def test_wrong_figures(study: Run, arguments: list[str], message: str) -> None:
    outcome = study("init", *arguments)
    assert outcome.code == 2
    assert message in outcome.message
    assert not list(Path().iterdir())


@pytest.mark.parametrize("name", ["figure2", "figure5", "figure7", "figure8", "figure10"])
def test_a_figure_from_its_file_to_its_plot(study: Run, name: str) -> None:
    assert study("init", name, "--scale", "small").code == 0
    text = Path(f"{name}.toml").read_text()
    Path(f"{name}.toml").write_text(
        text.replace(", 30, 100, 200, 400, 1000, 2000]", "]").replace("seeds = 3", "seeds = 1")
    )
    assert study("run", f"{name}.toml").code == 0
    for kind in FIGURES[name].plots:
        assert study("plot", name, "--kind", *kind.split(), "-o", f"{kind}.svg").code == 0
        assert "<svg" in Path(f"{kind}.svg").read_text()
