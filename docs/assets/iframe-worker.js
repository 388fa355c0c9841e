// A page opened as a file may start no Worker, in which the search runs. Its script runs in a hidden frame instead.
if (location.protocol === "file:") window.Worker = class extends EventTarget {
  constructor(url) {
    super();
    this.frame = document.createElement("iframe");
    this.frame.hidden = true;
    document.body.append(this.frame);
    const inner = this.frame.contentWindow, script = inner.document.createElement("script");
    inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
    this.loaded = new Promise((resolve, reject) => { script.onload = resolve; script.onerror = reject; });
    script.src = new URL(url, location.href).href;
    inner.document.body.append(script);
  }
  postMessage(data) {
    const inner = this.frame.contentWindow;
    this.loaded.then(() => inner.dispatchEvent(new inner.MessageEvent("message", { data })));
  }
  terminate() { this.frame.remove(); }
};
