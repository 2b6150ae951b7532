"""The errors that cede raises on purpose."""

from __future__ import annotations

from runtime import errors


def test_an_errors_status_says_whose_fault_it_is() -> None:
    for error in vars(errors).values():
        if not (isinstance(error, type) and issubclass(error, errors.CedeError)):
            continue
        if issubclass(error, errors.RequestError):
            assert 400 <= error.status < 500
        elif issubclass(error, errors.Unavailable):
            assert error.status in (429, 503, 504)
        else:
            assert error.status == 500
