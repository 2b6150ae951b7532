"""`python -m tests.soak`."""

from tests.soak.soak import main

if __name__ == "__main__":
    main()
