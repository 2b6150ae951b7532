"""The training of the embedded model: `python -m bench.training`.

`tokenizer` and `data` turn `bench.corpus` into token streams; `models` are the three networks, which `train` and
`distil` train with `optimiser` on data of `teacher`; `export` writes what cede loads, and `measure` and `card` its
model card.
"""
