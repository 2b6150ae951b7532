"""Self-test of the device alone: parity with a reference, rates, reads by the host.

For `actors.selftest`, `web.selftest`, the doctor command and `bench`; nothing that serves imports this package.  It
rests on the rest of `runtime`.

    findings     Finding, Figures, Status, Mismatch, NotHere: what a check has to say
    machine      the machine, the model and the KV folder, described
    parity       Parity: what the device computes beside the reference on the CPU; Subject: a model that shows scores
    states       with_states: buffers for states, where no engine names them
    rates        bandwidth, products, decoding and prefill, measured
    readbacks    check_readbacks: how often the host waits for the device in a step
    next_step    check_next_step: steps that begin ahead beside steps one by one
    single_rows  check_single_rows, check_few_states: kernels of few rows beside PyTorch's operations
"""
