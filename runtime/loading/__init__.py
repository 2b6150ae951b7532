"""From a model's folder to what serves it.

`describe_model` reads all but the weights, `plan_drafter` chooses what drafts, and `load_model` loads the weights on
the device thread after a check that they fit.  It rests on all others of `runtime` but `testing` and `selftest`;
the command line and the server call it.

- `load`: `describe_model`, `load_model`, also of a model that several ranks compute
- `drafters`: `plan_drafter`, `DrafterPlan`; `mtp_weights`: the weights of a module
- `footprint`: `check_memory`, before anything is allocated, and how many buffers there are for the states of recurrent
  layers; `fit`: the same for those who only ask
- `few_rows`: what computes layers of few rows
- `others`: what rank 0 has to do with the other ranks meanwhile
- `ranks`: the process of another rank
- `options`: `LoadOptions`, without torch
- `served`: `ServedModel`, `Proposer`: what the layers above know of a model; `ModelFacts`: what its files say
"""
