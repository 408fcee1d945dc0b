"""Build the model of a Hugging Face config.json with the transformers library: only its own classes, with parameters on
the meta device. Nothing is downloaded, and code in the folder is never run."""

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
from effsparse_cli.formats.torch.arch.huggingface.config import Limits, clean_config, within
from effsparse_cli.formats.torch.tracing.preserve import quiet

ALTERNATIVES = (
    "Pass the code of the model with --arch package.module:factory, or export the model where it runs, with "
    "torch.export.save (.pt2) or to ONNX."
)


def build_hf(config: Mapping[str, Any] | None, options: LoadOptions, limits: Limits | None = None) -> nn.Module:
    """Return the model in evaluation mode. Parameters are on the meta device; buffers have values, because most are not
    stored. `options.arch_args` override the config, `limits` bound the cost of building."""
    if config is None:
        raise LoadError(f"there is no config.json that describes the model. {ALTERNATIVES}")
    config = {**config, **_parse_arguments(options)}
    settings = clean_config(config, limits)
    with _undisturbed_import():
        library = _transformers()
        try:
            with quiet(), _offline(), within(limits) if limits else nullcontext(), _without_values():
                make = _find_class(library, config)
                model = make(library.CONFIG_MAPPING[config["model_type"]].from_dict(settings)) if make else None
        except EffsparseError:
            raise
        except Exception as error:
            raise LoadError(_describe_failure(library, config, error)) from error
    if not isinstance(model, nn.Module):
        raise _unknown_model_error(library, config)
    return model.eval()


def _describe_failure(library: Any, config: Mapping[str, Any], error: Exception) -> str:
    what = f"transformers {library.__version__} cannot build the {config['model_type']} model of config.json"
    root: BaseException = error
    while (cause := root.__cause__ or root.__context__) is not None and cause is not root:
        root = cause
    package = _failing_package(root)
    reason = " ".join(str(root if package else error).split())[:300] or type(error).__name__
    if package:
        return f"{what}: importing the installed package {package} fails: {reason}. Reinstall or remove it."
    return f"{what}: {reason}. It may be from another version. {ALTERNATIVES}"


def _failing_package(error: BaseException) -> str:
    """Return the package, other than transformers, whose import raised the error; empty if none did."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__) if frame.f_code.co_name == "<module>"]
    names = [str(frame.f_globals.get("__name__", "")).partition(".")[0] for frame in frames]
    return next((name for name in names if name not in ("transformers", "__main__")), "")


def _transformers() -> Any:
    try:
        return import_module("transformers")
    except ImportError as error:
        raise LoadError(
            "building the model of a config.json needs the transformers library, which is not installed: "
            f"pip install transformers. {ALTERNATIVES}"
        ) from error


def _find_class(library: Any, config: Mapping[str, Any]) -> Any:
    """Return what builds the model: the class in the config, or the library's choice for the model type."""
    kind, named = config.get("model_type"), config.get("architectures")
    if not isinstance(kind, str) or kind not in library.CONFIG_MAPPING:
        return None
    wanted = [name for name in named if isinstance(name, str)] if isinstance(named, list) else []
    if not wanted:
        return library.AutoModel.from_config
    # Only model classes: accessing other names of the library may import anything.
    if ".modeling_" not in f".{library._class_to_module.get(wanted[0], '')}":
        return None
    found = getattr(library, wanted[0], None)
    if isinstance(found, type) and issubclass(found, library.PreTrainedModel):
        return found._from_config  # type: ignore[attr-defined]
    return None


def _unknown_model_error(library: Any, config: Mapping[str, Any]) -> LoadError:
    kind, named = config.get("model_type"), config.get("architectures")
    what = f"the model type {kind!r} with the architectures {named!r}"
    if config.get("auto_map"):
        return RefusedError(
            f"config.json needs its own code ({', '.join(map(str, _leaves(config['auto_map'])))}), because "
            f"transformers {library.__version__} does not have {what}. Such code is never run. {ALTERNATIVES}"
        )
    return LoadError(f"transformers {library.__version__} does not have {what} of config.json. {ALTERNATIVES}")


def _leaves(tree: Any) -> Iterator[Any]:
    """Yield the leaves of a nested JSON value."""
    if isinstance(tree, Mapping | list):
        for branch in tree.values() if isinstance(tree, Mapping) else tree:
            yield from _leaves(branch)
    elif tree is not None:
        yield tree


def _parse_arguments(options: LoadOptions) -> dict[str, Any]:
    """Return the arguments as in a config.json: JSON values where they are valid JSON, otherwise strings."""
    arguments: dict[str, Any] = {}
    for name, text in options.arch_args.items():
        try:
            arguments[name] = json.loads(text)
        except ValueError:
            arguments[name] = text
    return arguments


@contextmanager
def _without_values() -> Iterator[None]:
    """Move parameters to the meta device when a module registers them, before they are initialised. Buffers keep their
    values, unlike with torch.device("meta"), because a file does not contain all of them."""
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
    """Keep the library from downloading weights that a config may name."""
    constants: Any = import_module("huggingface_hub.constants")
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


@contextmanager
def _undisturbed_import() -> Iterator[None]:
    """Hide a torchvision that cannot be imported: transformers imports it if it is installed, and no model needs it."""
    with ExitStack() as stack, quiet():
        if "torchvision" not in sys.modules:
            try:
                import_module("torchvision")
            except Exception:
                sys.modules["torchvision"] = None  # type: ignore[assignment]
                stack.callback(sys.modules.pop, "torchvision", None)
        yield
