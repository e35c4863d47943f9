"""Texts of several lengths, and their tokens padded to one."""

TEXTS = ["What is 12 plus 30?", "Find 7 added to 41", "5 and 6?"]


def padded(model, texts=TEXTS):
    batch = model.tokenizer(texts, add_special_tokens=False, padding=True, padding_side="right", return_tensors="pt")
    return batch["input_ids"], batch["attention_mask"].bool()
