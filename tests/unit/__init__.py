"""Tests of one module each, in folders that mirror the source.

`<path>/test_<module>.py`, or `<path>/test_<module>_<aspect>.py`, stands for `<path>/<module>.py`.
"""
