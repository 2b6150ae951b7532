"""Unit tests of `runtime.sampling`, module by module.

- `drafts`: drafts to be accepted or rejected, and wrong rules for that.
- `sampler_rows`: rows of logits and how their tokens are to be drawn, for tests of the sampler.
"""
