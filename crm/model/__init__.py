"""From text to a preference logit: encoding, batches, backbone, heads, export."""
