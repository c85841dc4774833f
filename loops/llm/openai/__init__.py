"""OpenAI-compatible endpoints: the adapter, the request and the stream."""
