"""Scores: connections with low scores are pruned first.

A score is one function, `score(inputs: ScoreInput) -> LayerScores`, that returns one array per layer of
`inputs.layers`. To add one, write it in a file of this folder and add a row to SCORES in
`effsparse_cli/pruning/__init__.py`.
"""
