"""Anthropic's Messages API: the adapter, the request and the stream."""
