function render({ model, el }) {
  const button = document.createElement("button");
  button.textContent = "copy as code";
  button.title = "copy the Python call behind this view";
  button.className = "jupyter-button widget-button";
  button.style.width = "130px";
  const code = document.createElement("code");
  code.style.cssText = "flex:1;min-width:0;overflow:auto;white-space:nowrap;font-size:11px;line-height:28px";
  code.tabIndex = 0;
  const told = document.createElement("span");
  told.setAttribute("role", "status");
  told.style.cssText = "width:70px;font-size:11px;line-height:28px";
  el.style.cssText = "display:flex;gap:6px;height:30px;width:100%;min-width:0;overflow:hidden";
  el.append(button, told, code);

  const show = () => {
    code.textContent = model.get("code");
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
