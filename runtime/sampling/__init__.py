"""Sampling of tokens from logits, batched and on the device.

The package knows nothing of steps, models or requests: `runtime.step` tells a step's rows by its types, and
`runtime.nn` calls its functions at the end of a step.  It rests on torch alone; `params`, `tokens` and `random_numbers`
do without torch at import, and are used by every layer above.

- `params`: `SamplingParams`, what a request asks for
- `tokens`: `SampleSpec`, `DraftToken`, `SampledToken`, `TokenLogprobs`, `TokenMask`, `TokenDraws`
- `random_numbers`: `uniform`, a function of seed and position
- `staging`: `StagingBuffer`, host numbers that go to the device in one copy
- `batch`: `SamplingBatch`, what the rows of one step ask for
- `masks`: `MaskPenalties`, masks of grammars on the device
- `sampler`: `sample`, `adjust_logits`, `distribution`
- `acceptance`: `verify`, which judges drafts and samples
"""
