"""Paths over one set of kept connections, met with questions about another."""

from __future__ import annotations

from effsparse_cli.paths.boolean.weights import BitWeights


class SplitWeights:
    """The weights of a pass: paths run over what `kept` keeps, and the connections of `asked` are asked about."""

    def __init__(self, kept: BitWeights, asked: BitWeights) -> None:
        self.contract = kept.contract
        self.contract_back = kept.contract_back
        self.meet = asked.meet
        self.meet_everywhere = asked.meet_everywhere
        self.merge = asked.merge
