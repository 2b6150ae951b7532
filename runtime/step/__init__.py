"""One device step, and where it runs.

`step` is the loop over layers, once, without threads or tensors; the executors drive it.  It rests on `sampling`
for the types of tokens.  `kv` and `nn` implement what it calls (`StepModel`), and the slot manager in `actors` awaits
an `Executor`.

- `step`: `Segment`, `CancelMark`, `StepModel`, `run_step`, `StepResult`, `SegmentResult`
- `burst`: steps that follow one another where they run
- `shortcuts`: `LayersTogether`, `NextStep`: what a model may be able to do beside `StepModel`, where that is faster
- `job`: `StepJob`, which an executor is given, and how far its `Burst` may go
- `transfer`: `Save`, `Load`, `Copy`, `CopyPage`, which copy KV between steps
- `executor`: `Executor`, `InlineExecutor`, `SimulatedExecutor`
- `thread_executor`: `ThreadExecutor`, `open_thread_executor`, on a `device_thread`; CPU threads of a step, chosen by
  `thread_tuner`
- `device`: `select_device`, `select_dtype`, memory, `RunAhead`
- `prompt_rows`: what prompts give besides KV
"""
