"""Algorithms that only move bytes. Each arrival is noted as `arrived`, with the sender as the peer."""
