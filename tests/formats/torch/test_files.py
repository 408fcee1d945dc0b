"""Files of torch.save and torch.export.save: they are read as data, refused if they would run code, and errors explain
what to do if they have no graph."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import types
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from effsparse_cli.errors import LoadError, RefusedError, UsageError
from effsparse_cli.formats import LoadOptions, load, open_model_file
from effsparse_cli.paths import find_paths
from tests.formats.torch.cases import r


class Own(nn.Module):
    """A class whose code is not in the file."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x)  # type: ignore[no-any-return]


def network() -> nn.Sequential:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2))
    prune.random_unstructured(model[0], "weight", 0.5)  # type: ignore[no-untyped-call]
    return model.eval()


def test_pickled_and_exported_modules_agree(tmp_path: Path) -> None:
    model = network()
    torch.save(model, tmp_path / "m.pt")
    torch.export.save(torch.export.export(model, (r(1, 3, 8, 8),)), tmp_path / "m.pt2")
    pickled = load(tmp_path / "m.pt", LoadOptions(input_shapes={"": (1, 3, 8, 8)}))
    exported = load(tmp_path / "m.pt2", LoadOptions())
    assert list(pickled.layers) == list(exported.layers) == ["0", "4"]
    for name, edges in find_paths(pickled).items():
        assert (edges.mask("active") == find_paths(exported)[name].mask("active")).all()


def modules_of_torch() -> dict[str, nn.Module]:
    return {
        "transformer": nn.Transformer(8, 2, 1, 1, 16),
        "recurrent": nn.Sequential(nn.Embedding(5, 4), nn.GRU(4, 3)),
        "weight norm": torch.nn.utils.weight_norm(nn.Linear(3, 3)),
        "spectral norm": torch.nn.utils.spectral_norm(nn.Linear(3, 3)),
        "encoder": nn.TransformerEncoderLayer(8, 2, 16, activation="gelu"),
        "containers": nn.ModuleDict({"a": nn.ModuleList([nn.Linear(3, 3)]), "b": nn.ParameterList([torch.ones(2)])}),
    }


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:enable_nested_tensor")
def test_modules_of_torch_classes_are_accepted(tmp_path: Path) -> None:
    for name, module in modules_of_torch().items():
        torch.save(module, tmp_path / "m.pt")
        assert type(open_model_file(tmp_path / "m.pt", LoadOptions()).module()) is type(module), name


@pytest.mark.parametrize("zipped", [True, False])
def test_custom_classes_are_refused_by_name_and_loaded_with_trust(tmp_path: Path, zipped: bool) -> None:
    torch.save(Own(), tmp_path / "own.pt", _use_new_zipfile_serialization=zipped)
    with pytest.raises(RefusedError, match=r"test_files\.Own.*--trust.*--arch.*pt2.*ONNX"):
        load(tmp_path / "own.pt", LoadOptions())
    with_arch = LoadOptions(arch="tests.formats.torch.test_files:Own")
    assert list(load(tmp_path / "own.pt", with_arch).layers) == ["fc"]
    assert list(load(tmp_path / "own.pt", LoadOptions(trust=True)).layers) == ["fc"]


def test_a_module_in_a_checkpoint_is_traced_whole(tmp_path: Path) -> None:
    torch.save({"epoch": 1, "model": network()}, tmp_path / "m.pt")
    shape = LoadOptions(input_shapes={"": (1, 3, 8, 8)})
    assert list(load(tmp_path / "m.pt", shape).layers) == ["0", "4"]


class Sized(nn.Module):
    """Is constructed when it is loaded, with any numbers that the file gives."""

    def __reduce__(self) -> Any:
        return nn.Linear, (100_000, 100_000)


def test_files_cannot_call_classes_of_torch(tmp_path: Path) -> None:
    """Calling this one would allocate forty gigabytes."""
    torch.save(nn.Sequential(Sized()), tmp_path / "m.pt")
    with pytest.raises(LoadError, match=r"0 is a torch\.nn\.modules\.linear\.Linear, whose weights cannot be read"):
        load(tmp_path / "m.pt", LoadOptions())


def script(tmp_path: Path, how: str) -> Path:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 2)).eval()
    prune.random_unstructured(model[0], "weight", 0.5)  # type: ignore[no-untyped-call]
    prune.remove(model[0], "weight")  # type: ignore[no-untyped-call]
    made = torch.jit.script(model) if how == "script" else torch.jit.trace(model, r(1, 4))  # type: ignore[no-untyped-call]
    torch.jit.save(made, tmp_path / "m.pt")
    return tmp_path / "m.pt"


def chain() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 2))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("how", ["script", "trace"])
def test_scripts_are_read_as_weights_and_run_only_with_trust(tmp_path: Path, how: str) -> None:
    file = script(tmp_path, how)
    with pytest.raises(RefusedError, match=r"TorchScript.*None of it was run.*--trust.*--arch.*ONNX"):
        load(file, LoadOptions())
    as_data = load(file, LoadOptions(arch="tests.formats.torch.test_files:chain"))
    run = load(file, LoadOptions(trust=True, input_shapes={"": (1, 4)}))
    assert list(as_data.layers) == list(run.layers) == ["0", "3"]
    assert (as_data.layers["0"].kept() == run.layers["0"].kept()).all()
    assert any("one path observed" in note for note in run.notes)


class Restored(nn.Module):
    """A script with code that runs when it is loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(2, 2)

    @torch.jit.export
    def __getstate__(self) -> tuple[int, bool]:
        return (7, self.training)

    @torch.jit.export
    def __setstate__(self, state: tuple[int, bool]) -> None:
        print("canary")
        self.training = state[1]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x)  # type: ignore[no-any-return]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_scripts_that_restore_themselves_are_not_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    torch.jit.save(torch.jit.script(Restored()), tmp_path / "m.pt")
    for options in (LoadOptions(), LoadOptions(arch="tests.formats.torch.test_files:Restored")):
        with pytest.raises(LoadError, match="only its own code can read"):
            load(tmp_path / "m.pt", options)
    assert "canary" not in "".join(capfd.readouterr())


def test_a_state_dict_has_no_graph_and_the_error_says_what_to_do(tmp_path: Path) -> None:
    torch.save({"model": nn.Linear(4, 3).state_dict(), "epoch": 3}, tmp_path / "m.pt")
    with pytest.raises(LoadError, match=r"has no graph: it contains only 2 tensors \(weight, bias\)") as caught:
        load(tmp_path / "m.pt", LoadOptions())
    for way in ("--arch", "torch.export.save", "ONNX", "--direct-only"):
        assert way in str(caught.value)
    assert "\n" not in str(caught.value)


def test_damaged_files_are_errors(tmp_path: Path) -> None:
    """Change or cut bytes all over a file: there is a result or an error of ours, and nothing else."""
    torch.save(nn.Sequential(nn.Linear(4, 3)), tmp_path / "m.pt")
    whole = (tmp_path / "m.pt").read_bytes()
    for place in range(0, len(whole), len(whole) // 40):
        for damaged in (whole[:place], whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :]):
            (tmp_path / "m.pt").write_bytes(damaged)
            with contextlib.suppress(LoadError, UsageError):
                load(tmp_path / "m.pt", LoadOptions())


def rewritten(path: Path, change: Callable[[str, bytes], bytes]) -> None:
    with zipfile.ZipFile(path) as archive:
        members = {name: change(name, archive.read(name)) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


DANGERS: dict[str, Callable[[str, bytes], bytes]] = {
    "pickled": lambda name, c: c.replace(b'"use_pickle": false', b'"use_pickle": true'),
    "the program calls": lambda name, c: c.replace(b"torch.ops.aten.linear.default", b"torch.os.system"),
    "sample_inputs": lambda name, c: b"\x80\x02cos\nsystem\n." if "sample_inputs" in name else c,
    "has the size": lambda name, c: c.replace(b'{"as_int": 4}',
                                              b'{"as_expr": {"expr_str": "__import__(\'os\').getcwd()"}}'),
    "a class to import": lambda name, c: c.replace(b'\\"context\\": \\"null\\"',
                                                   b'\\"context\\": \\"{\\\\\\"__enum__\\\\\\": true}\\"'),
}  # fmt: skip


@pytest.mark.parametrize("danger", DANGERS)
def test_exported_programs_that_would_run_code_are_refused(tmp_path: Path, danger: str) -> None:
    file = tmp_path / "m.pt2"
    torch.export.save(torch.export.export(nn.Sequential(nn.Linear(4, 3)), (r(1, 4),)), file)
    rewritten(file, lambda name, content: content)
    assert list(load(file, LoadOptions()).layers) == ["0"]
    rewritten(file, DANGERS[danger])
    with pytest.raises(RefusedError, match=danger):
        load(file, LoadOptions())


def test_compiled_libraries_in_an_archive_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "m.pt2"
    torch.export.save(torch.export.export(nn.Sequential(nn.Linear(4, 3)), (r(1, 4),)), file)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("m/data/aotinductor/model/lib.so", b"")
    with pytest.raises(RefusedError, match=r"lib\.so"):
        load(file, LoadOptions())


def test_shapes_of_exported_programs(tmp_path: Path) -> None:
    """Fixed shapes stay fixed; dynamic ones are the user's, or those of the export."""
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)).eval()
    torch.export.save(torch.export.export(model, (r(1, 3, 8, 8),)), tmp_path / "fixed.pt2")
    size = torch.export.Dim("size", min=4)
    dynamic = torch.export.export(model, (r(1, 3, 8, 8),), dynamic_shapes=({2: size, 3: size},))
    torch.export.save(dynamic, tmp_path / "any.pt2")
    with pytest.raises(UsageError, match="fixed shapes: input has shape 1x3x8x8, not 1x3x6x6"):
        load(tmp_path / "fixed.pt2", LoadOptions(input_shapes={"": (1, 3, 6, 6)}))
    for shape in ((1, 3, 8, 8), (1, 3, 6, 6)):
        graph = load(tmp_path / "any.pt2", LoadOptions(input_shapes={"input": shape} if shape[2] != 8 else {}))
        assert [graph.nodes[i].shape for i in graph.sources] == [shape]


def test_tensors_of_custom_classes_are_read_without_a_graph(tmp_path: Path) -> None:
    torch.save(Own(), tmp_path / "own.pt")
    assert list(open_model_file(tmp_path / "own.pt").weights().layers) == ["fc.weight"]


SCRIPT = """
import sys, torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)
    def forward(self, x):
        return self.fc(x)
if __name__ == "__main__":
    torch.save(Net(), "net.pt")
    torch.save(Net(), "old.pt", _use_new_zipfile_serialization=False)
    import training
    torch.save(training.Net(), "imported.pt")
"""


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "training.py").write_text(SCRIPT)
    subprocess.run([sys.executable, "training.py"], cwd=folder, check=True, capture_output=True)
    return folder


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run as an installed script, without the current folder on the path."""
    code = "import sys; sys.path.remove(''); from effsparse_cli.cli import run; sys.exit(run(sys.argv[1:]))"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    given = [sys.executable, "-c", code, *arguments]
    return subprocess.run(given, cwd=folder, capture_output=True, text=True, env=environment)


def test_trust_finds_modules_of_the_current_folder(scripted: Path) -> None:
    done = command(scripted, "report", "imported.pt", "--trust", "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("file", ["net.pt", "old.pt"])
def test_classes_of_a_script_are_named_with_the_script(
    scripted: Path, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(scripted)
    for options in (LoadOptions(), LoadOptions(trust=True)):
        with pytest.raises(LoadError, match=r"probably training\.py\. To build the model, pass --arch training:Net"):
            load(scripted / file, options)


def test_classes_of_a_script_that_is_not_here(scripted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RefusedError, match=r"--arch SCRIPT:Net in the folder of SCRIPT\.py"):
        load(scripted / "net.pt", LoadOptions())
    with pytest.raises(RefusedError, match=r"probably training\.py"):
        load(scripted / "old.pt", LoadOptions())


def _get_thnn_function_backend() -> None:
    """The function that torch < 1.3 called when it loaded a module."""


class Backend:
    def __reduce__(self) -> Any:
        return _get_thnn_function_backend, ()


NEWER = (
    "_non_persistent_buffers_set", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks", "_state_dict_pre_hooks",
    "_backward_pre_hooks", "_is_full_backward_hook", "_forward_hooks_with_kwargs", "_forward_hooks_always_called",
    "_forward_pre_hooks_with_kwargs", "padding_mode", "_reversed_padding_repeated_twice", "approximate", "proj_size",
    "divisor_override", "recompute_scale_factor", "_flat_weights_names", "_flat_weights",
)  # fmt: skip


@pytest.mark.parametrize("zipped", [True, False])
def test_modules_of_old_versions_of_torch_are_traced(
    tmp_path: Path, zipped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They refer to the backend of torch < 1.3, and lack later attributes."""
    name = "torch.nn.backends.thnn"
    monkeypatch.setitem(sys.modules, name, types.SimpleNamespace(_get_thnn_function_backend=_get_thnn_function_backend))
    monkeypatch.setattr(_get_thnn_function_backend, "__module__", name)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.GELU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(36, 2))
    for module in model.modules():
        for attribute in NEWER:
            vars(module).pop(attribute, None)
        vars(module)["_backend"] = Backend()
    torch.save(model, tmp_path / "m.pt", _use_new_zipfile_serialization=zipped)
    graph = load(tmp_path / "m.pt", LoadOptions(input_shapes={"": (1, 3, 8, 8)}))
    assert list(graph.layers) == ["0", "4"]
