"""How the shipped digits classifier was made: ``python -m convert.models.digits.train``.

Needs scikit-learn, which is not a dependency of the project (it has the data set inside and downloads nothing); install
it for this command only. Seeds, split and thread count are fixed, so the same versions on the same kind of processor
give the same weights (TorchScript writes its constants in an order that changes from run to run). Takes half a minute
on one core, writes the files beside this one and prints the held-out accuracy, which belongs in the docstring of the
package.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from convert.models.digits.net import DigitsNet, digits

HERE = Path(__file__).parent
SEED = 0
HELD_OUT = 597
EPOCHS = 60
BATCH = 50
SAMPLES = 100


def normalised(pixels: Any) -> Tensor:
    """Turn pixels ``[N, 8, 8]`` of 0..16 into the network's float32 ``[N, 1, 8, 8]`` of -1..1."""
    return torch.from_numpy((pixels / 8.0 - 1.0).astype(np.float32)).unsqueeze(1)


def split() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Give training images and labels, then held-out images and labels (stratified, seeded)."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    data = load_digits()
    parts = train_test_split(data.images, data.target, test_size=HELD_OUT, random_state=SEED, stratify=data.target)
    train_x, held_x, train_y, held_y = parts
    return normalised(train_x), torch.from_numpy(train_y), normalised(held_x), torch.from_numpy(held_y)


def shifted(images: Tensor) -> Tensor:
    """Move every image by at most one pixel each way; what comes in from outside is background (-1)."""
    padded = nn.functional.pad(images, (1, 1, 1, 1), value=-1.0)
    corner = torch.randint(0, 3, (len(images), 2))
    rows = corner[:, :1] + torch.arange(8)
    columns = corner[:, 1:] + torch.arange(8)
    which = torch.arange(len(images))[:, None, None]
    return padded[which, 0, rows[:, :, None], columns[:, None, :]].unsqueeze(1)


def train(images: Tensor, labels: Tensor) -> DigitsNet:
    """Fit a fresh network on ``images`` float32 ``[N, 1, 8, 8]`` and ``labels`` int64 ``[N]``; it is in eval mode."""
    net = DigitsNet()
    optimizer = torch.optim.AdamW(net.parameters(), lr=4e-3, weight_decay=0.02)
    steps = EPOCHS * (len(images) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=steps)
    loss = nn.CrossEntropyLoss(label_smoothing=0.05)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(images))[: steps // EPOCHS * BATCH].split(BATCH):
            optimizer.zero_grad()
            loss(net(shifted(images[rows])), labels[rows]).backward()
            optimizer.step()
            schedule.step()
    net.eval()
    return net


def accuracy(net: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Share of ``images`` whose largest logit is at the label."""
    with torch.no_grad():
        return float((net(images).argmax(1) == labels).double().mean())


def save_samples(images: Tensor, labels: Tensor) -> None:
    """Write the first held-out samples; labels go into a file of their own, since they are no input."""
    np.savez_compressed(HERE / "samples.npz", image=images[:SAMPLES].numpy())
    np.savez_compressed(HERE / "labels.npz", label=labels[:SAMPLES].numpy())


def save_program(net: nn.Module) -> None:
    """Write ``digits.pt2``: an exported program with one input ``image`` and a batch of 1 to 64."""
    batch = torch.export.Dim("N", min=1, max=64)
    example = torch.linspace(-1, 1, 8 * 64).reshape(8, 1, 8, 8)
    program = torch.export.export(net, (example,), dynamic_shapes={"image": {0: batch}})
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # it holds file names of the machine that exported
    torch.export.save(program, HERE / "digits.pt2")


def save_script(net: nn.Module) -> None:
    """Write ``digits_script.pt``: the network as TorchScript, without the file names in its debug records."""
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "digits_script.pt"
        torch.jit.script(net).save(str(whole))
        reader = torch._C.PyTorchFileReader(str(whole))
        writer = torch._C.PyTorchFileWriter(str(HERE / whole.name))
        for name in reader.get_all_records():
            # The writer adds these records by itself.
            if not name.endswith(".debug_pkl") and name not in ("version", ".data/serialization_id"):
                record = reader.get_record(name)
                writer.write_record(name, record, len(record))
        writer.write_end_of_file()


def main() -> None:
    """Train, write every shipped file and print the figures."""
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True)
    train_x, train_y, held_x, held_y = split()
    torch.save(train(train_x, train_y).state_dict(), HERE / "weights.pt")
    net = digits()
    save_samples(held_x, held_y)
    save_program(net)
    save_script(net)
    print(f"parameters: {sum(p.numel() for p in net.parameters())}")
    print(f"held-out accuracy: {accuracy(net, held_x, held_y):.4f} of {len(held_y)}")
    print(f"shipped samples: {accuracy(net, held_x[:SAMPLES], held_y[:SAMPLES]):.4f} of {SAMPLES}")


if __name__ == "__main__":
    main()
