"""Tests of what is between Dynamo and an engine, without Dynamo."""
