"""Whole derivatives of functions, under torch's names."""

from ..derivatives import hessian, jacobian

__all__ = ["hessian", "jacobian"]
