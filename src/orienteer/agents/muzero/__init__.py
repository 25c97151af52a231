"""MuZero for search: refinements are planned rule by rule in a learned model, within a query grammar and tries.

In the order of the data: `representation` encodes an observation, `root` makes the root state of a search from it,
`grammar` and `tries` say which actions are legal, `networks` are g and f, `learned_model` and `mcts` search, `planning`
makes a refinement out of searches, `agent` plays. Training: `self_play` and `demonstrations` make trajectories,
`replay`, `batch` and `learner` learn from them, `train` is the loop.
"""
