// A widget host as small as can be: the two classes that anywidget's front end is given in
// VS Code's `@jupyter-widgets/base`, and a model without a kernel behind it.

class Events {
  #heard = [];
  on(names, callback, context) {
    for (const name of names.split(" ")) this.#heard.push({ name, callback, context });
  }
  once(names, callback, context) {
    const first = (...told) => { this.off(names, first); callback.apply(context, told); };
    this.on(names, first, context);
  }
  off(names, callback, context) {
    const all = names ? names.split(" ") : null;
    this.#heard = this.#heard.filter((h) => (all && !all.includes(h.name))
      || (callback && callback !== h.callback) || (context && context !== h.context));
  }
  trigger(name, ...told) {
    for (const h of [...this.#heard]) if (h.name === name) h.callback.apply(h.context, told);
  }
}

class DOMWidgetModel extends Events {
  constructor(state) {
    super();
    this.state = state;
    this.saved = [];
    this.changed = {};
    this.widget_manager = { get_model: () => Promise.reject(new Error("no other model")) };
    this.initialize(state, {});
  }
  initialize() {}
  get(name) { return this.state[name]; }
  set(name, value) {
    if (this.state[name] === value) return;
    this.state[name] = value;
    this.changed[name] = value;
    this.trigger(`change:${name}`, this, value);
    this.trigger("change", this);
  }
  save_changes() { this.saved.push(this.changed); this.changed = {}; }
  send() {}
}

class DOMWidgetView extends Events {
  constructor(model) {
    super();
    this.model = model;
    this.el = document.createElement("div");
    this.$el = { empty: () => this.el.replaceChildren() };
  }
  remove() { this.trigger("remove"); this.el.remove(); }
}

define("@jupyter-widgets/base", { DOMWidgetModel, DOMWidgetView });

async function show({ AnyModel, AnyView }) {
  const made = window.saved_widgets.map(({ state }) => new AnyView(new AnyModel(state)));
  window.models = made.map((view) => view.model);
  for (const view of made) {
    document.getElementById("container").append(view.el);
    await view.render();
  }
  document.body.dataset.ready = "true";
}

requirejs(["anywidget"], (front_end) => { show(front_end); }); // require.js calls no async function
