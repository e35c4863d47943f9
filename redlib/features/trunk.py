"""The layers of a Llama or Qwen3 decoder, rewritten for one strip of trie nodes on a CPU core: what is not arithmetic
is left out.

The same function as the decoder's own layers up to rounding (a test holds it to them): norm weights are folded into
the products that follow, query/key/value are one product, weights are laid out once for oneDNN, rotary position
embedding is one complex product, and a block of nodes attends to itself and to the ancestors of its first node only
(in depth-first order, every other ancestor of a block's nodes lies in the block).

What was tried, one strip of 1,019 nodes on one core (AMD EPYC, 32-bit): the products are 93 % of a layer's time and run
at the core's own rate. The residual sum inside the last product, gate and up as one product, and the gate inside the up
product all give the same bits and save nothing (51.2 ms; 51.6, 52.5, 52.0). A backbone loaded in bfloat16 has products
at 1.87 times the rate; the stream between them, norms and attention stay in 32 bits. Features then move by 0.9 % of
their spread at layer 4, and RED's value accuracy on 4,000 texts of Task 1 (two seeds, 800 test rows) by 0.008 +- 0.014
(`structure`) and -0.009 +- 0.017 (`text`): no measurable difference at that size.
"""

from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor

from redlib.backbone import Backbone
from redlib.packing import Batch

FAMILIES = ("llama", "qwen3")
BLOCK = 32  # queries of an attention block
_LAYERS: WeakKeyDictionary[Backbone, list["_Layer"]] = WeakKeyDictionary()  # built once a backbone, which is frozen


def supports(backbone: Backbone) -> bool:
    """Whether the trunk can stand in for the decoder's own layers: on a CPU, a known family without biases, fp32 or,
    where the CPU multiplies it, bf16."""
    config = backbone.model.config
    known = config.model_type in FAMILIES and config.hidden_act == "silu"
    biased = any(name.endswith(".bias") for name, _ in backbone.model.layers[:1].named_parameters())  # all are alike
    wide = backbone.dtype == torch.float32 or (backbone.dtype == torch.bfloat16 and _multiplies_bfloat16())
    return known and not biased and backbone.device.type == "cpu" and wide


def _multiplies_bfloat16() -> bool:
    return torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()


class Trunk:
    """The embedding and the first `upto` layers of a backbone (all of them: and the final norm)."""

    def __init__(self, backbone: Backbone, upto: int) -> None:
        self.backbone = backbone
        known = _LAYERS.setdefault(backbone, [])
        known += [_Layer(layer) for layer in backbone.model.layers[len(known) : upto]]
        self.layers = known[:upto]

    def run(self, batch: Batch, keep: Iterable[int]) -> dict[int, Tensor]:
        """Hidden states {layer: (1, W, d)}, layers from 0 to `upto`, of a batch of one row of W nodes."""
        model = self.backbone.model
        wanted = set(keep)
        strip = _Strip(batch, model)
        states = model.embed_tokens(batch.ids[0]).float()
        kept = {}
        for reached in range(len(self.layers) + 1):
            if reached:
                states = self.layers[reached - 1](states, strip)
            if reached in wanted:
                final = reached == self.backbone.layers
                kept[reached] = (model.norm(states) if final else states.clone())[None]
        return kept


class _Strip:
    """What all layers share: rotations (W, 1, D/2) complex, and for every block of nodes its keys and mask."""

    def __init__(self, batch: Batch, model: Any) -> None:
        cos, sin = model.rotary_emb(model.embed_tokens.weight[:1].float(), batch.depths)
        half = cos.shape[-1] // 2
        self.rotation = torch.complex(cos[0, :, :half], sin[0, :, :half])[:, None]
        self.size = len(batch.ids[0])
        node, ends, depth = torch.arange(self.size), batch.ends[0], batch.depths[0]
        first = node[::BLOCK]
        above = (node < first[:, None]) & (first[:, None] < ends)  # (blocks, W) ancestors of the block's first node
        reach = int(depth[first].max())
        ancestors = torch.zeros(len(first), reach, dtype=torch.int64)
        block, ancestor = above.nonzero(as_tuple=True)
        ancestors[block, depth[ancestor]] = ancestor
        within = first[:, None] + torch.arange(BLOCK)  # (blocks, Q), past the end in the last block
        known = torch.cat([torch.arange(reach) < depth[first][:, None], within < self.size], dim=1)
        self.keys = torch.cat([ancestors, within.clamp(max=self.size - 1)], dim=1)  # (blocks, A + Q)
        query, key = within[:, :, None], self.keys[:, None]
        sees = (key <= query) & (query < ends[self.keys][:, None]) & known[:, None]
        sees |= (within >= self.size)[:, :, None]  # queries past the end see anything, and are dropped
        self.mask = torch.zeros(sees.shape).masked_fill_(~sees, float("-inf"))[:, None]  # (blocks, 1, Q, A + Q)


class _Layer:
    """One decoder layer on states (W, d)."""

    def __init__(self, layer: Any) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        self.dim = attention.head_dim
        self.heads = attention.q_proj.out_features // self.dim
        self.groups = attention.k_proj.out_features // self.dim
        self.scale = attention.scaling
        before, after = layer.input_layernorm, layer.post_attention_layernorm
        self.eps = (before.variance_epsilon, after.variance_epsilon)
        dtype = attention.q_proj.weight.dtype
        turned = [_pairs(projection.weight, self.dim) for projection in (attention.q_proj, attention.k_proj)]
        self.project = Product(torch.cat([*turned, attention.v_proj.weight]).float() * before.weight, dtype)
        self.out = Product(attention.o_proj.weight, dtype)
        self.gate = Product(mlp.gate_proj.weight.float() * after.weight, dtype)
        self.up = Product(mlp.up_proj.weight.float() * after.weight, dtype)
        self.down = Product(mlp.down_proj.weight, dtype)
        self.head_norms = None
        if hasattr(attention, "q_norm"):
            norms = (attention.q_norm, attention.k_norm)
            weights = [_pairs(norm.weight, self.dim).expand(n, -1) for norm, n in zip(norms, self.counts, strict=True)]
            self.head_norms = (torch.cat(weights).float(), norms[0].variance_epsilon)

    @property
    def counts(self) -> tuple[int, int]:
        return self.heads, self.groups

    def __call__(self, states: Tensor, strip: _Strip) -> Tensor:
        states = self.out(self._attend(_unit(states, self.eps[0]), strip)).float().add_(states)
        unit = _unit(states, self.eps[1]).to(self.gate.dtype)
        return self.down(F.silu(self.gate(unit), inplace=True).mul_(self.up(unit))).float().add_(states)

    def _attend(self, unit: Tensor, strip: _Strip) -> Tensor:
        heads, groups, dim = self.heads, self.groups, self.dim
        projected = self.project(unit).float().view(strip.size, heads + 2 * groups, dim)
        turning = projected[:, : heads + groups]
        if self.head_norms is not None:
            weight, eps = self.head_norms
            turning.mul_(torch.rsqrt(turning.square().mean(-1, keepdim=True) + eps)).mul_(weight)
        torch.view_as_complex(turning.unflatten(2, (dim // 2, 2))).mul_(strip.rotation)
        blocks, keys = strip.keys.shape
        seen = projected[:, heads:].reshape(strip.size, -1).index_select(0, strip.keys.flatten())
        seen = seen.view(blocks, keys, 2 * groups, dim).transpose(1, 2)
        asked = F.pad(projected[:, :heads], (0, 0, 0, 0, 0, blocks * BLOCK - strip.size))
        asked = asked.view(blocks, BLOCK, heads, dim).transpose(1, 2)
        answer = F.scaled_dot_product_attention(
            asked, seen[:, :groups], seen[:, groups:], attn_mask=strip.mask, scale=self.scale, enable_gqa=True
        )
        return answer.transpose(1, 2).reshape(blocks * BLOCK, heads * dim)[: strip.size]


class Product:
    """x @ weight.T in a dtype, x (W, n) and weight (m, n), the weight laid out for oneDNN where torch offers it (12 %
    faster than the plain product)."""

    def __init__(self, weight: Tensor, dtype: torch.dtype = torch.float32) -> None:
        self.dtype = dtype
        self.weight = weight.detach().to(dtype).contiguous()
        self.packed = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
        if self.packed:
            self.weight = torch.ops.mkldnn._reorder_linear_weight(self.weight, 1024)

    def __call__(self, x: Tensor) -> Tensor:
        x = x.to(self.dtype)
        if self.packed:
            return torch.ops.mkldnn._linear_pointwise(x, self.weight, None, "none", [], "")
        return F.linear(x, self.weight)


def _unit(states: Tensor, eps: float) -> Tensor:
    """States divided by their root mean square: an RMS norm whose weight has gone into the next product."""
    norm = torch.linalg.vector_norm(states, dim=-1, keepdim=True)
    return states * norm.square_().div_(states.shape[-1]).add_(eps).rsqrt_()


def _pairs(weight: Tensor, dim: int) -> Tensor:
    """Rows of every head reordered so that the two halves that rotate together are neighbours."""
    return weight.unflatten(0, (-1, 2, dim // 2)).transpose(1, 2).flatten(0, 2)
