"""Mending: change masks so that they reach a target, meet their budget, or form a connected network again.

| option of repair | function | result |
|---|---|---|
| --target | target.mend_to_target | the effective sparsity of the plan, from either side |
| --budget-neutral | budget.keep_budget | as many connections kept as before, all of them active |
| --reconnect | reconnect.reconnect | collapsed layers active again, with few connections added |

Each takes a graph, a PrunePlan (an empty `lsq` means global here) and optionally dense weights by layer name, in the
stored shape, and returns a MendResult. Without dense weights, the masked values of the file are used.
"""
