"""The table of mask conventions: how each library names a pruned weight and its mask. Reading checkpoints, matching
mask files to layers, writing masks back and changing live modules all use it, so a new convention is one row here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial

FIELDS = {
    "front": r"(?P<front>(?:.*?\.)??)",
    "path": r"(?P<path>(?:.*\.)?)",
    "name": r"(?P<name>[^.]+)",
    "other": r"(?P<other>[^.]+)",
    "flat": r"(?P<flat>[^.]*___[^.]*)",
    "index": r".+",
}
"""Fields of a name template. `path` is the layer with its final dot, `name` the parameter's own name, `other` that of
another tensor of the layer, `flat` a whole parameter name with `___` for each dot, `index` the position of a
parametrization, and `front` the name of whatever contains the masks."""
TORCH_NAMES = re.compile(r"(?:in_proj_)?(?:weight|bias)(?:_[ih]h_l\d+(?:_reverse)?)?")
"""Names that torch.nn gives to weights and biases."""


@dataclass(frozen=True, kw_only=True)
class Convention:
    """One row of the table.

    `mask`, `weight` and `parameter` are templates: the names of the mask and the weight in a file, and the name that
    the weight has in the unpruned model. An empty `weight` means that it keeps that name.
    """

    library: str
    mask: str
    parameter: str = "{path}{name}"
    weight: str = ""
    names: re.Pattern[str] | None = None
    """Parameter names that the convention is limited to."""
    certain: bool = True
    """Nothing else has such a name. Otherwise a tensor is a mask only if it is binary and has its weight's shape."""
    per_output: bool = False
    """The mask may have one value per output, as [out] or [out, 1]."""
    nested: bool = False
    """The mask may be in a submodule of its layer, at any depth."""
    applied: bool = False
    """The library multiplies weight and mask whenever it uses the weight."""
    live: bool = False
    """Modules in memory store masks like this, so masks are written back to them."""
    other_names: tuple[str, str] | None = None
    """Templates for other tensors of the layer that are renamed: their name in the file and in the model."""
    prunes_bias: bool = False
    """The mask also applies to the bias of the layer."""
    unless: str = ""
    """A tensor of this name means that something other than masks computes the weight; with a final dot, any tensor
    below it."""
    missing: str = ""
    """Error text for a weight without its mask, if the name of the weight shows that it has one."""

    @property
    def renames_weight(self) -> bool:
        return bool(self.weight)

    def find_parameters(self, mask: str) -> list[str]:
        """Return the parameters that a tensor of this name may be the mask of, the most likely first."""
        fields = parse(self.mask, mask)
        if fields is None or (self.names and not self.names.fullmatch(fields["name"])):
            return []
        paths = [fields.get("path", "")]
        while self.nested and paths[-1]:
            parent, dot, _ = paths[-1].rstrip(".").rpartition(".")
            paths.append(parent + dot)
        return [self.parameter.format(**{**fields, "path": path}) for path in paths]

    def find_parameter(self, weight: str) -> str | None:
        """Return the parameter that a weight of this name belongs to."""
        fields = parse(self.weight or self.parameter, weight)
        return None if fields is None else self.parameter.format(**fields)

    def weight_name(self, parameter: str) -> str:
        return self._format(self.weight or self.parameter, parameter)

    def mask_name(self, parameter: str) -> str:
        return self._format(self.mask, parameter)

    def conflict_name(self, parameter: str) -> str:
        return self._format(self.unless, parameter)

    def _format(self, template: str, parameter: str) -> str:
        path, dot, name = parameter.rpartition(".")
        flat = parameter.replace(".", "___")
        return template.format(path=path + dot, name=name, flat=flat, front="", index="0")


of_weight = partial(Convention, parameter="{path}weight")
"""A convention for the parameter `weight` of a layer only."""

TORCH_PRUNE = Convention(
    library="torch.nn.utils.prune",
    weight="{path}{name}_orig",
    mask="{path}{name}_mask",
    applied=True,
    live=True,
    unless="{path}{name}_u",  # a spectral norm
    missing="torch.nn.utils.prune saves both. Save the whole state_dict, or pass the masks with --masks.",
)
TORCH_AO = Convention(
    library="torch.ao.pruning, masks in the state of the sparsifier",
    weight="{path}parametrizations.{name}.original",
    mask="{front}state.{path}{name}.mask",
    per_output=True,
    applied=True,
    other_names=("{path}_bias", "{path}bias"),  # where whole outputs are pruned, a hook adds the bias
    unless="{path}parametrizations.{name}.",
    missing="If torch.ao.pruning saved it, the mask is in the sparsifier: call squash_mask() before saving, or save "
    "the state_dict of the sparsifier and pass it with --masks. For any other parametrization, pass the model that "
    "has it with --arch.",
)
CONVENTIONS = (
    TORCH_PRUNE,
    Convention(
        library="torchao",
        weight="{path}parametrizations.{name}.original",
        mask="{path}parametrizations.{name}.{index}.mask",
        per_output=True,
        applied=True,
        live=True,
        unless="{path}parametrizations.{name}.",
    ),
    TORCH_AO,
    Convention(
        library="NNI",
        weight="{path}module.{name}",
        mask="{path}{name}_mask",
        other_names=("{path}module.{other}", "{path}{other}"),
    ),
    Convention(library="SynFlow", mask="{path}{name}_mask", names=TORCH_NAMES, live=True),
    Convention(library="OpenLTH", mask="{front}mask_{flat}", parameter="{front}{flat}"),
    Convention(library="OpenLTH, PrunedModel", mask="{front}mask_{flat}", parameter="{front}model.{flat}"),
    Convention(
        library="torch.ao.pruning, after squash_mask()",
        mask="{front}state.{path}{name}.mask",
        certain=False,
        per_output=True,
    ),
    Convention(library="Apex ASP", mask="{path}__{name}_mma_mask"),
    of_weight(library="NNCF", mask="{path}binary_mask", nested=True, certain=False),
    of_weight(library="NNCF", mask="{path}_binary_mask", nested=True, certain=False),
    of_weight(library="NNCF, filters", mask="{path}binary_filter_pruning_mask", nested=True, per_output=True),
    of_weight(library="NNCF, filters", mask="{path}_binary_filter_pruning_mask", nested=True, per_output=True),
    of_weight(library="DeepSpeed", mask="{path}sparse_pruning_mask"),
    of_weight(library="DeepSpeed, rows", mask="{path}row_pruning_mask", per_output=True, prunes_bias=True),
    of_weight(library="DeepSpeed, channels", mask="{path}channel_pruning_mask", per_output=True),
    of_weight(library="custom layers", mask="{path}mask", certain=False),
    Convention(library="custom layers", mask="{path}{name}_mask", certain=False, live=True),
    Convention(library="a dictionary per weight", mask="{path}{name}.mask", certain=False),
)
"""In the order in which they are tried."""


def find_parameters(name: str) -> Iterator[str]:
    """Yield the parameters that a tensor of this name, a mask or a weight, may belong to."""
    for convention in CONVENTIONS:
        yield from convention.find_parameters(name)
        parameter = convention.find_parameter(name) if convention.renames_weight else None
        if parameter is not None:
            yield parameter


def is_mask_name(name: str) -> bool:
    return any(convention.find_parameters(name) for convention in CONVENTIONS)


def without_container(mask: str) -> str | None:
    """Return the name of a mask that is stored outside the model, without its container's name; None for others."""
    for convention in CONVENTIONS:
        fields = parse(convention.mask, mask) if "{front}" in convention.mask else None
        if fields is not None:
            return mask.removeprefix(fields["front"])
    return None


def parse(template: str, name: str) -> dict[str, str] | None:
    """Return the fields of a name; None if it does not match the template."""
    if not name.endswith(template.rpartition("}")[2]):
        return None
    match = _pattern(template).fullmatch(name)
    if match is None:
        return None
    fields = match.groupdict()
    return {**fields, "flat": fields["flat"].replace("___", ".")} if "flat" in fields else fields


@cache
def _pattern(template: str) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", template)
    return re.compile("".join(FIELDS[part] if i % 2 else re.escape(part) for i, part in enumerate(parts)))
