function render({ model, el }) {
  const button = document.createElement("button");
  button.textContent = "copy as code";
  button.title = "copy the Python call behind this view";
  button.className = "jupyter-button widget-button";
  button.style.width = "130px";
  const code = document.createElement("code");
  code.style.cssText = "flex:1;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;line-height:28px";
  const told = document.createElement("span");
  told.setAttribute("role", "status");
  told.style.cssText = "width:70px;font-size:11px;line-height:28px";
  const line = document.createElement("div");
  line.style.cssText = "display:flex;gap:6px;height:32px;overflow:hidden";
  line.append(button, told, code);
  el.append(line);

  const show = () => {
    code.textContent = code.title = model.get("code");
    told.textContent = "";
    button.disabled = !model.get("code");
  };
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(model.get("code"));
      told.textContent = "copied";
    } catch {
      window.getSelection().selectAllChildren(code);
      told.textContent = "press Ctrl+C";
    }
  });
  model.on("change:code", show);
  show();
  return () => model.off("change:code", show);
}

export default { render };
