"""Tests of `runtime.devices.parallel`."""
