"""Find the model that the tensors of a checkpoint belong to, and match their names with its own: prefixes are removed,
and differences are described. Without --arch, the architecture is guessed, but only to suggest it."""

from __future__ import annotations

import difflib
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from effsparse_cli.errors import LoadError, UsageError
from effsparse_cli.formats.masks.conventions import without_container
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch.arch.build import BuiltModel, build
from effsparse_cli.formats.torch.arch.built_in import BUILT_IN
from effsparse_cli.formats.torch.checkpoint.content import Checkpoint
from effsparse_cli.formats.torch.checkpoint.weights import AVERAGED
from effsparse_cli.formats.torch.conventions.resolve import resolve
from effsparse_cli.formats.torch.tensors import format_shape
from effsparse_cli.formats.torch.tracing.trace import stored_tensors
from effsparse_cli.formatting import plural

MAX_SHOWN = 6
MAX_PREFIX = 3
COUNTERS = ("num_batches_tracked", "_extra_state")
"""Tensors that are not used in computations and that older files lack."""
COMPILED = "_orig_mod."
"""Prefixes and infixes that torch.compile adds to names."""
OWN = "--arch package.module:factory (your own code that builds the model)"


def rename_tensors(checkpoint: Checkpoint, names: Mapping[str, str], notes: Sequence[str] = ()) -> Checkpoint:
    """Return the tensors in `names`, by the new names there."""

    def rename(table: Mapping[str, object]) -> dict[str, object]:
        return {names[name]: value for name, value in table.items() if name in names}

    tables = {name: rename(getattr(checkpoint, name)) for name in ("tensors", "masks", "values")}
    return replace(checkpoint, **tables, notes=(*checkpoint.notes, *notes))  # type: ignore[arg-type]


def strip_prefix(checkpoint: Checkpoint, module: nn.Module) -> Checkpoint:
    """Return the checkpoint without the prefix that the file adds to the names of the module, such as `module.`.
    Tensors without the prefix, such as those of a loss, are left out."""
    cleaned = {name: name.replace(COMPILED, "") for name in checkpoint.tensors}
    tops = {name.partition(".")[0] for name in stored_tensors(module)}

    counts: Counter[str] = Counter()
    for name in cleaned.values():
        for prefix in _prefixes(name):
            counts[prefix] += name.removeprefix(prefix).partition(".")[0] in tops
    prefix = min(counts, key=lambda each: (-counts[each], AVERAGED.search(each) is not None, len(each)), default="")
    names = {name: new.removeprefix(prefix) for name, new in cleaned.items() if new.startswith(prefix)}
    names |= {name: mask for name, new in cleaned.items() if (mask := without_container(new)) is not None}
    left_out = [name for name in cleaned if name not in names and not name.endswith(COUNTERS)]
    notes = [f"tensors outside {prefix.rstrip('.')} are ignored: {_shorten(left_out)}"] if left_out else []
    return rename_tensors(checkpoint, names, notes)


def _prefixes(name: str) -> Iterator[str]:
    """Yield possible prefixes of a name, with the final dot."""
    parts = name.split(".", MAX_PREFIX + 1)
    yield from ("".join(f"{part}." for part in parts[:n]) for n in range(min(len(parts), MAX_PREFIX + 1)))


def fit(checkpoint: Checkpoint, module: nn.Module, *, extra_is_fine: bool = False) -> tuple[Checkpoint, list[str]]:
    """Return the tensors that the module has, and problems. With `extra_is_fine`, tensors of the file that the model
    does not have are only noted, unless there are other problems."""
    wanted, there = stored_tensors(module), checkpoint.tensors
    known = {id(tensor) for name, tensor in wanted.items() if name in there}
    missing = [n for n in wanted if n not in there and id(wanted[n]) not in known and not n.endswith(COUNTERS)]
    unstored = set(_unstored(module))
    extra = [n for n in there if n not in wanted and n not in unstored and not n.endswith(COUNTERS)]
    shapes = [
        f"{name} is {format_shape(there[name].shape)} in the file and {format_shape(wanted[name].shape)} in the model"
        for name in wanted
        if name in there and wanted[name].shape != there[name].shape
    ]
    notes = []
    if extra and extra_is_fine and not missing and not shapes:
        notes.append(f"{_count(extra, 'file')} not in the model and ignored: {_shorten(extra)}")
        extra = []
    fitted = rename_tensors(checkpoint, {n: n for n in there if n in wanted}, notes)
    return fitted, list(_describe_problems(missing, extra, shapes))


def _unstored(module: nn.Module) -> Iterator[str]:
    """Yield non-persistent buffers, which some files contain."""
    for path, each in module.named_modules(remove_duplicate=False):
        yield from (f"{path}.{name}".lstrip(".") for name in each._non_persistent_buffers_set)


def _describe_problems(missing: Sequence[str], extra: Sequence[str], shapes: Sequence[str]) -> Iterator[str]:
    if missing:
        yield f"{_count(missing, 'model')} not in the file: {_list_closest(missing, extra)}"
    if extra:
        yield f"{_count(extra, 'file')} not in the model: {_list_closest(extra, missing)}"
    if shapes:
        yield f"shapes differ: {_shorten(shapes)}"


def _list_closest(names: Sequence[str], others: Sequence[str]) -> str:
    """List the first names, each with the closest one on the other side."""
    listed = []
    for name in names[:MAX_SHOWN]:
        near = difflib.get_close_matches(name, others[:500], n=1, cutoff=0.6)
        listed.append(f"{name} (closest: {near[0]})" if near else name)
    return ", ".join(listed) + _rest(names)


def _count(names: Sequence[str], owner: str) -> str:
    return f"1 tensor of the {owner} is" if len(names) == 1 else f"{len(names)} tensors of the {owner} are"


def _shorten(names: Sequence[str]) -> str:
    return ", ".join(names[:MAX_SHOWN]) + _rest(names)


def _rest(names: Sequence[str]) -> str:
    return f" and {len(names) - MAX_SHOWN} more" if len(names) > MAX_SHOWN else ""


def guess(checkpoint: Checkpoint) -> str:
    """Return one sentence that says what to try."""
    return recognize(checkpoint) or _describe_chain(checkpoint.tensors) or f"Pass its model with {OWN}"


def recognize(checkpoint: Checkpoint) -> str:
    """Return one sentence that names the built-in model that the tensors belong to, if there is one."""
    for name in BUILT_IN:
        for arguments in _variants(name, checkpoint):
            with torch.device("meta"):
                module = BUILT_IN[name].make(**arguments)
            _, problems = fit(strip_prefix(checkpoint, module), module)
            if not problems:
                options = "".join(f" --arch-arg {key}={value}" for key, value in arguments.items())
                return f"It looks like {name}: try --arch {name}{options}"
    return ""


def _variants(name: str, checkpoint: Checkpoint) -> list[dict[str, int | bool]]:
    """Return arguments to try: those of the paper, the number of classes in the file, no biases before norms, norms."""
    last = [t for t in checkpoint.tensors.values() if t.ndim == 2]
    classes = [{}, {"num_classes": last[-1].shape[0]}] if last else [{}]
    others = [{}, {"bias": False}] if name.startswith("vgg") else [{}]
    others += [{"batch_norm": True}] if name.startswith("lenet") else []
    return [{**a, **b} for a in classes for b in others]


def _describe_chain(tensors: Mapping[str, torch.Tensor]) -> str:
    """Describe a chain of layers, each of which fits the output of the one before."""
    weights = [t for t in tensors.values() if t.ndim >= 2 and t.is_floating_point()]
    pairs = itertools.pairwise(weights)
    if not weights or not all(after.shape[1] == before.shape[0] for before, after in pairs):
        return ""
    if all(t.ndim == 2 for t in weights):
        sizes = "-".join(str(n) for n in (weights[0].shape[1], *(t.shape[0] for t in weights)))
        what = f"a chain of {len(weights)} linear layers ({sizes})"
    elif all(t.ndim == weights[0].ndim for t in weights):
        what = f"a chain of {len(weights)} convolutions"
    else:
        return ""
    return f"It looks like {what}; the operators between them are not in the file. Pass the model with {OWN}"


def fit_to_model(path: Path, raw: Checkpoint, options: LoadOptions) -> tuple[BuiltModel, Checkpoint]:
    """Build the model that --arch or config.json names, and match the file's tensors to it."""
    named = bool(options.arch or options.arch_args)
    if not options.arch and raw.config is not None:
        options = replace(options, arch="hf")
    if not options.arch:
        raise LoadError(_without_graph(path, raw))
    built = build(options, raw)
    if options.arch == "hf":
        from effsparse_cli.formats.torch.arch.huggingface.conversion import use_file_names

        use_file_names(built.module, raw, external_masks=options.masks is not None)
    else:
        raw = strip_prefix(raw, built.module)
    resolved = resolve(raw, stored_tensors(built.module), external_masks=options.masks is not None)
    fitted, problems = fit(resolved, built.module, extra_is_fine=options.arch == "hf")
    if problems and not named:
        raise LoadError(f"{path} does not fit its config.json: {'; '.join(problems)}.")
    if problems:
        advice = recognize(resolved) or "Check --arch and --arch-arg, or select the weights with --key"
        raise UsageError(f"{path} does not fit --arch {options.arch}: {'; '.join(problems)}. {advice}.")
    return built, fitted


def _without_graph(path: Path, found: Checkpoint) -> str:
    keys = ", ".join(list(found.tensors)[:3]) + (" ..." if len(found.tensors) > 3 else "")
    found = resolve(found, external_masks=True)
    problem = f"{path} has no graph: it contains only {plural(len(found.tensors), 'tensor')} ({keys})"
    if not path.is_dir() and (path.parent / "config.json").exists():
        return f"{problem}. There is a config.json beside it: pass the folder {path.parent} instead."
    return (
        f"{problem}. {guess(found)}. "
        "Alternatively, save the whole model with torch.save, or export it with torch.export.save (.pt2) or to ONNX. "
        "`report --direct-only` reports the direct sparsity of each tensor without a graph."
    )
