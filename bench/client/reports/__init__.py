"""Reports: tables (`report`) and plots (`plots`) of the records that runs have saved.

This package rests on `bench.client.harness.figures` alone; the command line uses it.
"""
