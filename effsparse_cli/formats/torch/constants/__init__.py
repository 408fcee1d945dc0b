"""Constants of a traced model: what no model input reaches is evaluated, and its stored elements are followed."""
