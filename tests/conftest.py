"""Shared by all tests."""

from __future__ import annotations

import torch

# The models of the tests are tiny: a second thread only costs barriers, and many on a busy machine.
torch.set_num_threads(1)
