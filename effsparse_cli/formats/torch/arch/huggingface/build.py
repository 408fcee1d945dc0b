"""A Hugging Face config.json becomes the model it describes, by the transformers library: its own classes only, with
parameters that have shapes and no values. Nothing is fetched, and code that a folder brings along never runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from importlib import import_module
from traceback import walk_tb
from typing import Any

from torch import nn

from effsparse_cli.errors import EffsparseError, LoadError, RefusedError
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch.arch.huggingface.config import cleaned
from effsparse_cli.formats.torch.arch.huggingface.limits import Limits, within
from effsparse_cli.formats.torch.tracing.preserve import quiet

OTHER_WAYS = (
    "Give the model's own code with --arch package.module:factory, or export the model where it runs, with "
    "torch.export.save (.pt2) or to ONNX, and give that file."
)


def build_hf(config: Mapping[str, Any] | None, options: LoadOptions, limits: Limits | None = None) -> nn.Module:
    """In evaluation mode. Parameters are on the meta device; buffers hold their values, because most are not stored.
    `options.arch_args` stand above what the config says, `limits` bound what building may cost."""
    if config is None:
        raise LoadError(f"there is no config.json that says which model the tensors belong to. {OTHER_WAYS}")
    config = {**config, **_given(options)}
    settings = cleaned(config, limits)
    with _undisturbed_import():
        library = _transformers()
        try:
            with quiet(), _offline(), within(limits) if limits else nullcontext(), _without_values():
                made = _class(library, config)
                model = made(library.CONFIG_MAPPING[config["model_type"]].from_dict(settings)) if made else None
        except EffsparseError:
            raise
        except Exception as error:
            raise LoadError(_not_built(library, config, error)) from error
    if not isinstance(model, nn.Module):
        raise _unknown(library, config)
    return model.eval()


def _not_built(library: Any, config: Mapping[str, Any], error: Exception) -> str:
    what = f"transformers {library.__version__} cannot build the {config['model_type']} model of config.json"
    root: BaseException = error
    while (cause := root.__cause__ or root.__context__) is not None and cause is not root:
        root = cause
    package = _failing_package(root)
    reason = " ".join(str(root if package else error).split())[:300] or type(error).__name__
    if package:
        return f"{what}: the package {package} is installed, but importing it fails: {reason}. Repair or remove it."
    return f"{what}: {reason}. Was it written by another version? {OTHER_WAYS}"


def _failing_package(error: BaseException) -> str:
    """The package, other than transformers itself, whose import raised the error; empty if none did."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__) if frame.f_code.co_name == "<module>"]
    names = [str(frame.f_globals.get("__name__", "")).partition(".")[0] for frame in frames]
    return next((name for name in names if name not in ("transformers", "__main__")), "")


def _transformers() -> Any:
    try:
        return import_module("transformers")
    except ImportError as error:
        raise LoadError(
            "a model described by a config.json is built by the transformers library, which is not installed: "
            f"pip install 'effsparse[hf]'. {OTHER_WAYS}"
        ) from error


def _class(library: Any, config: Mapping[str, Any]) -> Any:
    """What builds the model: the class that the config names, else the library's own choice for its kind."""
    kind, named = config.get("model_type"), config.get("architectures")
    if not isinstance(kind, str) or kind not in library.CONFIG_MAPPING:
        return None
    wanted = [name for name in named if isinstance(name, str)] if isinstance(named, list) else []
    if not wanted:
        return library.AutoModel.from_config
    # Its own model classes alone: asking for another name of the library may import whatever that needs.
    if ".modeling_" not in f".{library._class_to_module.get(wanted[0], '')}":
        return None
    found = getattr(library, wanted[0], None)
    if isinstance(found, type) and issubclass(found, library.PreTrainedModel):
        return found._from_config  # type: ignore[attr-defined]
    return None


def _unknown(library: Any, config: Mapping[str, Any]) -> LoadError:
    kind, named = config.get("model_type"), config.get("architectures")
    what = f"the model type {kind!r} with the architectures {named!r}"
    if config.get("auto_map"):
        return RefusedError(
            f"config.json asks for code of its own ({', '.join(map(str, _leaves(config['auto_map'])))}), because "
            f"transformers {library.__version__} does not have {what}. Such code is never run. {OTHER_WAYS}"
        )
    return LoadError(f"transformers {library.__version__} does not have {what} of config.json. {OTHER_WAYS}")


def _leaves(tree: Any) -> Iterator[Any]:
    """The texts in a config's table, however it is nested."""
    if isinstance(tree, Mapping | list):
        for branch in tree.values() if isinstance(tree, Mapping) else tree:
            yield from _leaves(branch)
    elif tree is not None:
        yield tree


def _given(options: LoadOptions) -> dict[str, Any]:
    """As a config.json would have them: numbers and the like where they read so, otherwise text."""
    found: dict[str, Any] = {}
    for name, text in options.arch_args.items():
        try:
            found[name] = json.loads(text)
        except ValueError:
            found[name] = text
    return found


@contextmanager
def _without_values() -> Iterator[None]:
    """Parameters go to the meta device as soon as a module registers them, before anything fills them. Buffers stay,
    unlike under torch.device("meta"): a file does not hold them all."""
    register = nn.Module.register_parameter

    def register_empty(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        register(module, name, parameter)
        if parameter is not None and not parameter.is_meta:
            module._parameters[name] = nn.Parameter(parameter.detach().to("meta"), parameter.requires_grad)

    nn.Module.register_parameter = register_empty  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        nn.Module.register_parameter = register  # type: ignore[method-assign]


@contextmanager
def _offline() -> Iterator[None]:
    """A config may name weights of a part that the library would fetch."""
    constants: Any = import_module("huggingface_hub.constants")
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


@contextmanager
def _undisturbed_import() -> Iterator[None]:
    """transformers imports torchvision where it finds it, and fails with one that does not fit torch. No model needs
    it."""
    with ExitStack() as stack, quiet():
        if "torchvision" not in sys.modules:
            try:
                import_module("torchvision")
            except Exception:
                sys.modules["torchvision"] = None  # type: ignore[assignment]
                stack.callback(sys.modules.pop, "torchvision", None)
        yield
