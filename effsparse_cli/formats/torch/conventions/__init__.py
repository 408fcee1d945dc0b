"""How pruning libraries write masks and sparse weights into a state_dict: one file per convention."""
