"""Find the model that a checkpoint's tensors belong to, and the tensors under that model's names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from effsparse_cli.errors import LoadError, UsageError
from effsparse_cli.formats.options import LoadOptions
from effsparse_cli.formats.torch.arch.build import BuiltModel, build
from effsparse_cli.formats.torch.arch.guess import guess
from effsparse_cli.formats.torch.arch.match import fit, strip_prefix
from effsparse_cli.formats.torch.checkpoint.content import Checkpoint
from effsparse_cli.formats.torch.conventions.resolve import resolve
from effsparse_cli.formats.torch.tracing.trace import stored_tensors
from effsparse_cli.formatting import plural


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
        raise LoadError(f"{path} does not fit its config.json: {'. '.join(problems)}.")
    if problems:
        raise UsageError(
            f"{path} does not fit --arch {options.arch}: {'. '.join(problems)}. Check --arch and "
            "--arch-arg, or select the weights with --key."
        )
    return built, fitted


def _without_graph(path: Path, found: Checkpoint) -> str:
    keys = ", ".join(list(found.tensors)[:3]) + (" ..." if len(found.tensors) > 3 else "")
    found = resolve(found, external_masks=True)
    return (
        f"{path} has no graph: it contains only {plural(len(found.tensors), 'tensor')} ({keys}). {guess(found)}. "
        "Alternatively, save the whole model with torch.save, or export it with torch.export.save (.pt2) or to ONNX. "
        "`report --direct-only` reports the direct sparsity of each tensor without a graph."
    )
