function render({ model, el }) {
  const box = document.createElement("div");
  box.className = "red-claims";
  const controls = document.createElement("div");
  controls.style.cssText = "display:flex;flex-wrap:wrap;gap:8px;margin-bottom:6px";
  const said = document.createElement("div");
  said.setAttribute("role", "status");
  const table = document.createElement("div");
  table.style.cssText = "max-height:480px;overflow:auto;border:1px solid currentColor";
  table.tabIndex = 0;
  table.setAttribute("role", "region");
  table.setAttribute("aria-label", "claims that fit");
  box.append(controls, said, table);
  el.append(box);

  const named = (name, field) => {
    const label = document.createElement("label");
    field.setAttribute("data-lm-suppress-shortcuts", "true");
    label.append(`${name} `, field);
    controls.append(label);
    return field;
  };
  const send = (name, value) => {
    model.set(name, value);
    model.save_changes();
  };
  const fields = {};
  for (const [name, options] of Object.entries(model.get("choices"))) {
    const field = named(name, document.createElement("select"));
    for (const option of options) field.append(new Option(option, option));
    field.addEventListener("change", () => send(name, field.value));
    fields[name] = field;
  }
  const words = named("words", document.createElement("input"));
  words.type = "search";
  words.addEventListener("input", () => send("words", words.value));
  fields.words = words;

  const draw = () => {
    said.textContent = model.get("said");
    table.innerHTML = model.get("table");
  };
  const follow = () => {
    for (const [name, field] of Object.entries(fields)) {
      if (field.value !== model.get(name)) field.value = model.get(name);
    }
  };
  model.on("change:table", draw);
  model.on("change:said", draw);
  for (const name of Object.keys(fields)) model.on(`change:${name}`, follow);
  follow();
  draw();
}
export default { render };
