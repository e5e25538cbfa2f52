"""A real model to try things on: a classifier of handwritten digits, trained on scikit-learn's digits.

31,450 parameters; right for 0.9933 of the 597 held-out images (the other 1,200 were for training; ``train.py`` is how).

The same network in every form that the command takes: the factory ``convert.models.digits.net:digits``, ``weights.pt``
(state dict), ``digits.pt2`` (exported program, input ``image``, batch 1 to 64) and ``digits_script.pt`` (TorchScript).
``samples.npz`` has 100 held-out images under ``image``, float32 ``[100, 1, 8, 8]`` in -1..1; ``labels.npz`` has their
classes under ``label``, int64 ``[100]``, apart from them because they are no input.
"""
