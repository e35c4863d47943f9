function render({ model, el }) {
  const box = document.createElement("div");
  box.tabIndex = 0;
  box.setAttribute("role", "application");
  box.setAttribute("aria-label", model.get("label"));
  box.setAttribute("data-lm-suppress-shortcuts", "true");
  box.className = "red-pair-map";
  box.style.cssText = "width:max-content;cursor:crosshair";
  el.append(box);

  const [low, high, left, top, cell] = model.get("geometry");
  const cells = high - low + 1;
  const mark = document.createElementNS("http://www.w3.org/2000/svg", "g");
  mark.setAttribute("fill", "none");
  const frame = `<rect x="-1.5" y="-1.5" width="${cell + 3}" height="${cell + 3}"`;
  mark.innerHTML = `${frame} stroke="#fff" stroke-width="5"/>${frame} stroke="#000" stroke-width="2"/>`;

  const place = () => {
    const [first, second] = model.get("pair");
    mark.setAttribute("transform", `translate(${left + (second - low) * cell} ${top + (high - first) * cell})`);
  };
  const draw = () => {
    box.innerHTML = model.get("picture");
    box.querySelector("svg").append(mark);
    place();
  };
  const go = (first, second) => {
    const inside = (x) => Math.min(Math.max(x, low), high);
    model.set("pair", [inside(first), inside(second)]);
    model.save_changes();
  };
  box.addEventListener("click", (event) => {
    const at = box.querySelector("svg").getBoundingClientRect();
    const column = Math.floor((event.clientX - at.left - left) / cell);
    const row = Math.floor((event.clientY - at.top - top) / cell);
    if (column >= 0 && column < cells && row >= 0 && row < cells) go(high - row, low + column);
  });
  const moves = { ArrowUp: [1, 0], ArrowDown: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] };
  box.addEventListener("keydown", (event) => {
    if (!(event.key in moves)) return;
    event.preventDefault();
    event.stopPropagation();
    const [first, second] = model.get("pair");
    go(first + moves[event.key][0], second + moves[event.key][1]);
  });
  model.on("change:pair", place);
  model.on("change:picture", draw);
  draw();
  return () => {
    model.off("change:pair", place);
    model.off("change:picture", draw);
  };
}

export default { render };
