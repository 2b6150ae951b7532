"""Tests of `runtime.devices.mps`."""
