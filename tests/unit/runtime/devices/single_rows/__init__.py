"""Tests of `runtime.devices.single_rows`."""
