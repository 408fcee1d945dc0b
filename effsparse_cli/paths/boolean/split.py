"""Weights of a pass that runs over one set of connections and reports on another."""

from __future__ import annotations

from effsparse_cli.paths.boolean.weights import BitWeights


class SplitWeights:
    """Paths run over the connections of `kept`; results are those of the connections of `reported`."""

    def __init__(self, kept: BitWeights, reported: BitWeights) -> None:
        self.contract = kept.contract
        self.contract_back = kept.contract_back
        self.meet = reported.meet
        self.meet_everywhere = reported.meet_everywhere
        self.merge = reported.merge
