"""Fine-tune a pruned Hugging Face model with the Trainer, and log its direct and effective sparsity per layer."""

from collections.abc import Mapping

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

import effsparse
from effsparse.huggingface import SparsityCallback


class MadeUpTexts(Dataset[Mapping[str, torch.Tensor]]):
    """Random tokens. The label says whether the first token is in the upper half of the vocabulary."""

    def __init__(self, count: int) -> None:
        self.tokens = torch.randint(100, (count, 16))

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> Mapping[str, torch.Tensor]:
        tokens = self.tokens[index]
        return {"input_ids": tokens, "labels": (tokens[0] >= 50).long()}


def main() -> None:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, num_labels=2
    )
    model = BertForSequenceClassification(config)
    data = MadeUpTexts(128)
    example_input = {"input_ids": data[0]["input_ids"][None]}

    pruned = effsparse.prune(model, example_input, 0.5, lsq="uniform", exclude="classifier", form="zeros")
    effsparse.hold(model, pruned)
    arguments = TrainingArguments(
        "trainer_log",
        num_train_epochs=2,
        per_device_train_batch_size=16,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
    )
    trainer = Trainer(model, arguments, train_dataset=data)
    trainer.add_callback(SparsityCallback(trainer, example_input, prefix="sparsity/", per_layer=True))
    trainer.train()
    print([entry for entry in trainer.state.log_history if "sparsity/effective_sparsity" in entry][-1])
    print(effsparse.analyze(model, example_input).totals)


if __name__ == "__main__":
    main()
