"""Tests of `runtime.devices.cuda`."""
