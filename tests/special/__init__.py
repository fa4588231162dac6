"""Tests of special functions."""
