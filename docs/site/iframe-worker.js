// Pages that are opened from a folder may start no workers. There, the search runs in a hidden frame with a worker's interface.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      this.ready = new Promise((done) => {
        const script = inside.document.createElement("script");
        script.src = url;
        script.onload = done;
        inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
        inside.document.body.append(script);
      });
      this.inside = inside;
    }

    postMessage(data) {
      void this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {}
  };
}
