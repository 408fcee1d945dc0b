"""Render results as text: one file or folder per kind of result, one function from result to str per format.

The `FORMATS` table of each lists what a command can print. The other modules are shared.
"""
