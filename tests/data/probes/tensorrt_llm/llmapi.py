"""An `LLM` that keeps its graphs where the variable STAND_IN says: `old`, `new`, `odd` or nowhere."""

import os
from types import SimpleNamespace as Some

import torch

CudaGraphConfig = Some
NGramDecodingConfig = Some


class LLM:
    def __init__(self, model, max_batch_size, cuda_graph_config, speculative_config=None, **_):
        assert os.environ["TLLM_WORKER_USE_SINGLE_PROCESS"] == "1"
        print("a greeting that is no JSON")
        self.weights = torch.Tensor((8 << 20,))
        drafts = [0]
        if speculative_config is not None:
            drafts = [speculative_config.max_draft_len] + ([0] if speculative_config.max_concurrency is not None else [])
        sizes = [size for size in (1, 2, 4, 8) if size <= max_batch_size]
        place = os.environ.get("STAND_IN")
        if place == "old":
            engine = Some(_cuda_graphs={size: {draft: object() for draft in drafts} for size in sizes})
            self._executor = Some(model_engine=engine)
        elif place == "new":
            graphs = {(size, draft, False): object() for size in sizes for draft in drafts}
            self._executor = Some(engine=Some(model_engine=Some(cuda_graph_runner=Some(graphs=graphs))))
        elif place == "odd":
            self._executor = Some(model_engine=Some(_cuda_graphs={"a": 1}))
        else:
            self._executor = Some()
