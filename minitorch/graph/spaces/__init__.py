"""TensorFlow 1's namespaces, such as `tf.losses`, and the table of where each name comes from."""
