"""Images cut, turned, resized and brightened, against PyTorch, NumPy and the slow version."""

from typing import Any

import numpy as np
import pytest
import torch

import minitorch.graph as tf
from minitorch.errors import GraphError

IMAGE = np.random.RandomState(0).rand(5, 4, 3).astype(np.float32)
BATCH = np.random.RandomState(1).rand(2, 4, 6, 3).astype(np.float32)


def _run(node: Any) -> Any:
    with tf.Session() as session:
        return session.run(node)


@pytest.mark.parametrize(
    ("build", "want"),
    [
        (lambda x: tf.image.flip_left_right(x), IMAGE[:, ::-1]),
        (lambda x: tf.image.flip_up_down(x), IMAGE[::-1]),
        (lambda x: tf.image.transpose_image(x), IMAGE.transpose(1, 0, 2)),
        (lambda x: tf.image.crop_to_bounding_box(x, 1, 2, 3, 2), IMAGE[1:4, 2:4]),
        (
            lambda x: tf.image.pad_to_bounding_box(x, 1, 0, 7, 6),
            np.pad(IMAGE, [(1, 1), (0, 2), (0, 0)]),
        ),
        (lambda x: tf.image.central_crop(x, 0.5), IMAGE[1:4, 1:3]),
        (
            lambda x: tf.image.resize_image_with_crop_or_pad(x, 3, 6),
            np.pad(IMAGE[1:4], [(0, 0), (1, 1), (0, 0)]),
        ),
        (
            lambda x: tf.image.per_image_standardization(x),
            (IMAGE - IMAGE.mean()) / IMAGE.std(),
        ),
        (lambda x: tf.image.per_image_standardization(x * 0.0), IMAGE * 0),
        (lambda x: tf.image.adjust_brightness(x, 0.25), IMAGE + 0.25),
        (
            lambda x: tf.image.adjust_contrast(x, 2.0),
            (IMAGE - IMAGE.mean((0, 1))) * 2 + IMAGE.mean((0, 1)),
        ),
        (
            lambda x: tf.image.rgb_to_grayscale(x),
            (IMAGE @ np.array([0.2989, 0.587, 0.114], np.float32))[..., None],
        ),
        (lambda x: tf.image.grayscale_to_rgb(x[..., :1]), IMAGE[..., [0, 0, 0]]),
        (
            lambda x: tf.image.convert_image_dtype(tf.constant([0, 51, 255], tf.uint8), tf.float32),
            [0, 0.2, 1],
        ),
        (
            lambda x: tf.image.convert_image_dtype(tf.constant([0.0, 0.5, 1.0]), tf.uint8),
            [0, 127, 255],
        ),
    ],
)
def test_an_image_is_numpys(build: Any, want: Any) -> None:
    np.testing.assert_allclose(_run(build(tf.constant(IMAGE))), want, rtol=1e-5, atol=1e-5)


def _slow_bilinear(image: Any, rows: int, columns: int) -> Any:
    height, width = image.shape[:2]
    out = np.zeros((rows, columns, image.shape[2]))
    for i in range(rows):
        for j in range(columns):
            y, x = i * height / rows, j * width / columns
            top, left = int(y), int(x)
            below, right = min(top + 1, height - 1), min(left + 1, width - 1)
            a, b = y - top, x - left
            upper = (1 - b) * image[top, left] + b * image[top, right]
            lower = (1 - b) * image[below, left] + b * image[below, right]
            out[i, j] = (1 - a) * upper + a * lower
    return out


@pytest.mark.parametrize("size", [(8, 9), (2, 3), (4, 6), (1, 1)])
def test_resizing_is_the_slow_version_and_torchs(size: tuple[int, int]) -> None:
    turned = torch.tensor(BATCH.transpose(0, 3, 1, 2))
    x = tf.constant(BATCH)
    got, corners, near = _run(
        [
            tf.image.resize_bilinear(x, size),
            tf.image.resize_images(x, size, align_corners=True),
            tf.image.resize_images(x, size, tf.image.ResizeMethod.NEAREST_NEIGHBOR),
        ]
    )
    for image, out in zip(BATCH, got, strict=True):
        np.testing.assert_allclose(out, _slow_bilinear(image, *size), rtol=1e-5, atol=1e-6)
    resize = torch.nn.functional.interpolate
    want = resize(turned, size, mode="bilinear", align_corners=True).numpy()
    np.testing.assert_allclose(corners, want.transpose(0, 2, 3, 1), rtol=1e-5, atol=1e-6)
    want = resize(turned, size, mode="nearest").numpy()
    np.testing.assert_array_equal(near, want.transpose(0, 2, 3, 1))


def test_a_resized_image_has_a_gradient_that_adds_up() -> None:
    x = tf.placeholder(tf.float32, [None, 4, 6, 3])
    slope = tf.gradients(tf.reduce_sum(tf.image.resize_bilinear(x, [7, 5])), x)[0]
    with tf.Session() as session:
        by_x = session.run(slope, {x: BATCH})
    assert by_x.sum() == pytest.approx(BATCH.shape[0] * 7 * 5 * 3, rel=1e-5)


def test_chance_turns_about_half_the_images_and_changes_all_brightnesses() -> None:
    x = tf.constant(IMAGE)
    turned = tf.image.random_flip_left_right(x, seed=1)
    over = tf.image.random_flip_up_down(x, seed=2)
    bright = tf.image.random_brightness(x, 0.5, seed=3)
    harder = tf.image.random_contrast(x, 0.5, 1.5, seed=4)
    with tf.Session() as session:
        runs = [session.run([turned, over, bright, harder]) for _ in range(100)]
    for place, mirror in ((0, IMAGE[:, ::-1]), (1, IMAGE[::-1])):
        count = sum(np.array_equal(run[place], mirror) for run in runs)
        assert 25 < count < 75  # 5 deviations
        assert sum(np.array_equal(run[place], IMAGE) for run in runs) == 100 - count
    added = np.array([(run[2] - IMAGE).mean() for run in runs])
    assert -0.5 <= added.min() < -0.3 < 0.3 < added.max() < 0.5
    factors = np.array([run[3].std((0, 1)) / IMAGE.std((0, 1)) for run in runs])
    assert 0.5 <= factors.min() + 1e-5 < 0.7 < 1.3 < factors.max() < 1.5 + 1e-5


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda x: tf.image.crop_to_bounding_box(x, 3, 0, 3, 2), "a part of 5 x 4"),
        (lambda x: tf.image.pad_to_bounding_box(x, 0, 0, 4, 4), "fits into 4 x 4"),
        (lambda x: tf.image.central_crop(x, 0.0), "share"),
        (lambda x: tf.image.resize_images(x, [2, 2], 2), "method 2"),
        (lambda x: tf.image.resize_bilinear(x, [0, 2]), "size"),
        (lambda x: tf.image.resize_bilinear(x[0], [2, 2]), r"expected \(H, W, C\)"),
        (lambda x: tf.image.random_contrast(x, 2.0, 1.0), "2.0 to 1.0"),
    ],
)
def test_what_is_no_image_is_refused_with_a_line(build: Any, says: str) -> None:
    with pytest.raises(GraphError, match=says) as caught:
        build(tf.constant(IMAGE))
    assert "test_tf1_images.py:" in str(caught.value)


def test_places_are_gathered_along_an_axis_counted_from_the_end() -> None:
    found = tf.gather(tf.constant(IMAGE), [2, 0], axis=-1)
    np.testing.assert_array_equal(_run(found), IMAGE[..., [2, 0]])
