"""What layers of networks do: softmax, normalization, attention, pooling, losses."""
