"""Files of torch.export.save are read as data: JSON, raw weights, and operators from a list. Nothing in them is run."""
