"""`effsparse study`: the commands for the experiments of a study file."""
