"""The process itself, which serves or is about to.

Its signals (`signals`), standard streams (`streams`), file descriptors (`descriptors`), the memory that exceptions keep
alive (`tracebacks`), what the libraries below torch read once (`torch_settings`), and what a command says when it fails
(`failures`).  This package rests on `web.limits` and knows nothing of HTTP.
"""
