// The widget host of VS Code's own Jupyter extension, restored from a notebook's saved state: what
// it does when a notebook with widgets is opened and no kernel runs.
import { activate } from "/ipywidgets.js";

const noop = () => {};
const signal = { connect: noop, disconnect: noop };
const kernel = {
  id: "", name: "", model: { id: "", name: "" }, username: "", clientId: "", status: "idle",
  connectionStatus: "connected", handleComms: true, hasPendingInput: false, isDisposed: false,
  statusChanged: signal, connectionStatusChanged: signal, iopubMessage: signal,
  unhandledMessage: signal, anyMessage: signal, disposed: signal, pendingInput: signal,
  registerCommTarget: noop, removeCommTarget: noop, requestCommInfo: () => Promise.reject(new Error("no kernel")),
  createComm: () => { throw new Error("no kernel"); },
};
const front_ends = new Set();
const scripts = { // the extension finds a widget's front end among the kernel's nbextensions
  widgetsRegisteredInRequireJs: front_ends,
  loadWidgetScript: async (name) => { front_ends.add(name); },
  errorHandler: (name, module, version, error) => { window.failed = String(error); },
  successHandler: noop,
};

const MIME = "application/vnd.jupyter.widget-state+json";
const saved = { [MIME]: { version_major: 2, version_minor: 0, state: window.saved_state } };
const metadata = { get: (key) => (key === "widgets" ? saved : undefined) };
const notebook = { metadata, getMetadata: metadata.get };

activate();
window.vscIPyWidgets8.load();
const container = document.getElementById("container");
const manager = new window.vscIPyWidgets.WidgetManager(kernel, container, scripts, noop, saved);
await manager.restoreWidgets(notebook, { loadKernel: false, loadNotebook: true });
window.models = [];
for (const { id } of window.saved_widgets) {
  const model = await manager.get_model(id);
  model.comm_live = false;
  const view = await manager.create_view(model, { el: container });
  await manager.display_view({}, view, { node: container });
  window.models.push(model);
}
document.body.dataset.ready = "true";
