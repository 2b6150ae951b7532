"""The client's side of benchmarking: load over HTTP on whatever speaks OpenAI's API, and reports of what it did."""
