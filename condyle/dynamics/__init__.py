"""The physics, for any scalar: floats, traced scalars, or numbers of any precision."""
