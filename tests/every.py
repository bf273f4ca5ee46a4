"""One test for a check of many items: it names every item that fails, and costs one case instead of hundreds."""

import inspect


def every(items, name=str):
    """Turn a check of one item, its first parameter, into a test of all items; keep its other parameters."""
    items = list(items)

    def decorate(check):
        _, *others = inspect.signature(check).parameters.values()

        def test(**arguments):
            assert items, "there is nothing to check"
            violations = []
            for item in items:
                try:
                    check(item, **arguments)
                except Exception as error:  # noqa: BLE001 - one item must not hide the others
                    violations.append(f"{name(item)}: {type(error).__name__}: {error}")
            assert not violations, "\n".join(violations)

        test.__name__, test.__doc__, test.__module__ = check.__name__, check.__doc__, check.__module__
        test.__signature__ = inspect.Signature(others)
        return test

    return decorate
