#!/usr/bin/env python3
"""Writes tied, untied and skips.safetensors beside itself: three training steps of a small GPT-2, by PyTorch.

worker/model/pytorch_golden_test.cc repeats the steps and compares. The test needs no Python; run this again only when
what the files hold changes:

    python3 -m venv /tmp/golden
    /tmp/golden/bin/pip install torch numpy safetensors
    /tmp/golden/bin/python tests/golden/pytorch/make_golden.py [VARIANT...]

Model: 2 blocks, hidden 16, 2 heads, vocabulary 32, sequences of 8 tokens, no dropout. Batch: 4 samples, as two
micro-batches of 2; some labels are masked (-100). The loss is the mean over all labels that are not. Gradients are
clipped to a norm of MAX_GRAD_NORM. Matrices have weight decay, vectors have none. The learning rate differs by step.
The variants: one tensor as embedding and head, or two; two, and the skip connections SKIPS.

Each file holds, with everything but the initial values in float64:

    initial.NAME                        F32  parameters under their Hugging Face names, linear weights [in, out]
    tokens, labels                      I32  [4, 8]
    RULE.loss, RULE.grad_norm           F64  [3], before clipping; RULE is adamw or sgd
    RULE.squared_norms                  F64  [3, tensors], of the gradients, tensors in bytewise name order
    RULE.gradients                      F64  of step 1: every GRADIENT_STRIDE-th element of all tensors' elements, laid
                                             end to end in bytewise name order
    RULE.parameters                     F64  [3, ..], after each step: every PARAMETER_STRIDE-th element likewise
    RULE.float32_deviation              F64  [3]: how far the same computation in float32 is from this one, at most: in
                                             loss, in gradients of step 1, in parameters after any step
"""

import pathlib
import sys

import numpy
import safetensors.numpy
import torch
import torch.nn.functional as F

NUM_BLOCKS, HIDDEN, HEADS, VOCAB, SEQ, SAMPLES = 2, 16, 2, 32, 8, 4
LEARNING_RATES = (0.01, 0.008, 0.006)
MAX_GRAD_NORM = 0.5
WEIGHT_DECAY = 0.1
BETAS, MOMENTUM = (0.9, 0.95), 0.9
EPSILON = 1e-5  # large, or rounding decides where a gradient is zero by symmetry: of the keys' bias
GRADIENT_STRIDE, PARAMETER_STRIDE = 3, 11
# From layer -> to layer, of embedding, blocks, norm and head: each ends behind the start of the next.
SKIPS = {0: 2, 1: 3, 2: 4}


def initial_parameters(tied):
    """Name -> float32 tensor. Nothing is left at the 0 or 1 of a real initialisation, so that every term counts."""
    random = torch.Generator().manual_seed(1234)

    def noise(shape, scale, offset=0.0):
        return offset + scale * torch.randn(shape, generator=random, dtype=torch.float32)

    parameters = {
        "transformer.wte.weight": noise((VOCAB, HIDDEN), 0.3),
        "transformer.wpe.weight": noise((SEQ, HIDDEN), 0.3),
    }
    for i in range(NUM_BLOCKS):
        block = f"transformer.h.{i}"
        shapes = {
            "attn.c_attn": (HIDDEN, 3 * HIDDEN),
            "attn.c_proj": (HIDDEN, HIDDEN),
            "mlp.c_fc": (HIDDEN, 4 * HIDDEN),
            "mlp.c_proj": (4 * HIDDEN, HIDDEN),
        }
        for name, shape in shapes.items():
            parameters[f"{block}.{name}.weight"] = noise(shape, 0.25)
            parameters[f"{block}.{name}.bias"] = noise(shape[1:], 0.1)
        for name in ("ln_1", "ln_2"):
            parameters[f"{block}.{name}.weight"] = noise((HIDDEN,), 0.1, 1.0)
            parameters[f"{block}.{name}.bias"] = noise((HIDDEN,), 0.1)
    parameters["transformer.ln_f.weight"] = noise((HIDDEN,), 0.1, 1.0)
    parameters["transformer.ln_f.bias"] = noise((HIDDEN,), 0.1)
    if not tied:
        parameters["lm_head.weight"] = noise((VOCAB, HIDDEN), 0.3)
    return parameters


def batch():
    random = torch.Generator().manual_seed(5678)
    tokens = torch.randint(0, VOCAB, (SAMPLES, SEQ), generator=random)
    labels = torch.randint(0, VOCAB, (SAMPLES, SEQ), generator=random)
    labels[0, :3] = -100
    labels[2, 5] = -100
    labels[3, 7] = -100
    return tokens, labels


def linear(p, name, x):
    return x @ p[f"{name}.weight"] + p[f"{name}.bias"]


def norm(p, name, x):
    return F.layer_norm(x, (HIDDEN,), p[f"{name}.weight"], p[f"{name}.bias"], eps=1e-5)


def attention(p, name, x):
    samples, seq, _ = x.shape
    q, k, v = linear(p, f"{name}.c_attn", x).split(HIDDEN, dim=2)
    q, k, v = (t.view(samples, seq, HEADS, HIDDEN // HEADS).transpose(1, 2) for t in (q, k, v))
    scores = q @ k.transpose(2, 3) / (HIDDEN // HEADS) ** 0.5
    future = torch.ones(seq, seq, dtype=torch.bool).triu(diagonal=1)
    mixed = scores.masked_fill(future, float("-inf")).softmax(dim=3) @ v
    return linear(p, f"{name}.c_proj", mixed.transpose(1, 2).reshape(samples, seq, HIDDEN))


def mlp(p, name, x):
    return linear(p, f"{name}.c_proj", F.gelu(linear(p, f"{name}.c_fc", x), approximate="tanh"))


def model_loss(p, tokens, labels, skips):
    outputs = []  # by layer

    def next_input():
        x = outputs[-1]
        for start, end in skips.items():
            if end == len(outputs):
                x = x + outputs[start]
        return x

    outputs.append(p["transformer.wte.weight"][tokens] + p["transformer.wpe.weight"])
    for i in range(NUM_BLOCKS):
        block = f"transformer.h.{i}"
        x = next_input()
        x = x + attention(p, f"{block}.attn", norm(p, f"{block}.ln_1", x))
        outputs.append(x + mlp(p, f"{block}.mlp", norm(p, f"{block}.ln_2", x)))
    outputs.append(norm(p, "transformer.ln_f", next_input()))
    logits = next_input() @ p.get("lm_head.weight", p["transformer.wte.weight"]).T
    return F.cross_entropy(logits.view(-1, VOCAB), labels.view(-1), ignore_index=-100)


def make_optimizer(rule, parameters):
    groups = [
        {"params": [t for t in parameters.values() if t.dim() > 1], "weight_decay": WEIGHT_DECAY},
        {"params": [t for t in parameters.values() if t.dim() == 1], "weight_decay": 0.0},
    ]
    if rule == "adamw":
        return torch.optim.AdamW(groups, lr=1.0, betas=BETAS, eps=EPSILON)
    return torch.optim.SGD(groups, lr=1.0, momentum=MOMENTUM, nesterov=True)


def end_to_end(tensors, stride):
    """Every stride-th element of all tensors laid end to end in bytewise name order, as float64."""
    flat = [tensors[name].detach().flatten() for name in sorted(tensors)]
    return torch.cat(flat)[::stride].to(torch.float64).numpy()


def train(initial, rule, dtype, skips):
    parameters = {name: t.to(dtype, copy=True).requires_grad_() for name, t in initial.items()}
    optimizer = make_optimizer(rule, parameters)
    tokens, labels = batch()
    result = {"loss": [], "grad_norm": [], "squared_norms": [], "parameters": []}
    for step, learning_rate in enumerate(LEARNING_RATES):
        optimizer.zero_grad()
        loss = model_loss(parameters, tokens, labels, skips)
        loss.backward()
        gradients = {name: t.grad for name, t in parameters.items()}
        if step == 0:
            result["gradients"] = end_to_end(gradients, GRADIENT_STRIDE)
        result["loss"].append(loss.item())
        result["squared_norms"].append([(gradients[name] ** 2).sum().item() for name in sorted(gradients)])
        grad_norm = torch.nn.utils.clip_grad_norm_(parameters.values(), MAX_GRAD_NORM)
        result["grad_norm"].append(grad_norm.item())
        for group in optimizer.param_groups:
            group["lr"] = learning_rate
        optimizer.step()
        result["parameters"].append(end_to_end(parameters, PARAMETER_STRIDE))
    # save_file writes the memory behind a strided view as it lies.
    return {name: numpy.ascontiguousarray(value, dtype=numpy.float64) for name, value in result.items()}


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for variant in sys.argv[1:] or ("tied", "untied", "skips"):
        skips = SKIPS if variant == "skips" else {}
        initial = initial_parameters(variant == "tied")
        tokens, labels = batch()
        arrays = {f"initial.{name}": t.numpy() for name, t in initial.items()}
        arrays["tokens"] = tokens.numpy().astype(numpy.int32)
        arrays["labels"] = labels.numpy().astype(numpy.int32)
        for rule in ("adamw", "sgd"):
            exact, rounded = (train(initial, rule, dtype, skips) for dtype in (torch.float64, torch.float32))
            for name, value in exact.items():
                arrays[f"{rule}.{name}"] = value
            arrays[f"{rule}.float32_deviation"] = numpy.array(
                [numpy.abs(exact[name] - rounded[name]).max() for name in ("loss", "gradients", "parameters")]
            )
            print(variant, rule, "loss", exact["loss"], "grad_norm", exact["grad_norm"],
                  "float32 deviation", arrays[f"{rule}.float32_deviation"])
        path = pathlib.Path(__file__).parent / f"{variant}.safetensors"
        safetensors.numpy.save_file(arrays, path, metadata={"made_by": f"make_golden.py, torch {torch.__version__}"})
        print(path.name, path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
