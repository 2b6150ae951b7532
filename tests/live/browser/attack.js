// All that a page can try to have a server answer it.
//
// attack(base, targets) tries ways on targets, {method, path, body, ways}, where null stands for all ways, and resolves
// to what became of each: {by, method, path, read}.  `read` is what the page got to see, or null for nothing.

const PATIENCE = 20000; // milliseconds; a way that has no end of its own is given up, which `read` says

const JSON_TYPE = { "content-type": "application/json" };

async function seen(promise) {
  try {
    const answer = await promise;
    return answer.type === "opaque" ? null : `${answer.status} ${await answer.text()}`;
  } catch {
    return null; // a TypeError, which is all that a page is told
  }
}

function over(url, init) {
  return seen(fetch(url, init));
}

function byXhr(method, url, body, type) {
  return new Promise((resolve) => {
    const request = new XMLHttpRequest();
    request.open(method, url);
    if (type) request.setRequestHeader("content-type", type);
    request.onloadend = () => resolve(request.status ? `${request.status} ${request.responseText}` : null);
    request.send(body);
  });
}

function byElement(name, attributes) {
  return new Promise((resolve) => {
    const element = Object.assign(document.createElement(name), attributes);
    const done = (read) => { element.remove(); resolve(read); };
    element.onload = () => done(name === "img" ? `image of ${element.naturalWidth}` : framed(element));
    element.onerror = () => done(null);
    document.body.append(element);
  });
}

function framed(element) {
  try {
    return element.contentDocument && `frame ${element.contentDocument.body.textContent}`;
  } catch {
    return null;
  }
}

// A form can only send names and values: a text/plain one writes `name=value`, which can be made to look like JSON.
function byForm(url, body, enctype) {
  return new Promise((resolve) => {
    const frame = Object.assign(document.createElement("iframe"), { name: `frame${Math.random()}` });
    document.body.append(frame); // which loads about:blank, at once
    const form = Object.assign(document.createElement("form"), {
      method: "post", action: url, enctype, target: frame.name, hidden: true,
    });
    const [name, value] = [`${body.slice(0, -1)}, "ignored": "`, '"}'];
    form.append(Object.assign(document.createElement("input"), { name, value }));
    document.body.append(form);
    frame.onload = () => { const read = framed(frame); frame.remove(); form.remove(); resolve(read); };
    form.submit();
  });
}

// In a sandboxed frame a page's origin is `null`.
function fromSandbox(url, init) {
  const script = `fetch(${JSON.stringify(url)}, ${JSON.stringify(init)})
    .then(async (a) => a.type === "opaque" ? null : a.status + " " + await a.text(), () => null)
    .then((read) => parent.postMessage({ url: ${JSON.stringify(url)}, read }, "*"))`;
  return new Promise((resolve) => {
    const frame = document.createElement("iframe");
    frame.sandbox = "allow-scripts";
    frame.srcdoc = `<script>${script}</` + `script>`;
    const listen = ({ source, data }) => {
      if (source !== frame.contentWindow) return;
      removeEventListener("message", listen);
      frame.remove();
      resolve(data.read);
    };
    addEventListener("message", listen);
    document.body.append(frame);
  });
}

function fromWorker(url, init) {
  const script = `fetch(${JSON.stringify(url)}, ${JSON.stringify(init)})
    .then(async (a) => a.type === "opaque" ? null : a.status + " " + await a.text(), () => null)
    .then((read) => postMessage(read))`;
  return new Promise((resolve) => {
    const worker = new Worker(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
    worker.onmessage = ({ data }) => { worker.terminate(); resolve(data); };
  });
}

function byEvents(url) {
  return new Promise((resolve) => {
    const source = new EventSource(url);
    const done = (read) => { source.close(); resolve(read); };
    source.onopen = () => done("200 opened");
    source.onerror = () => done(null);
  });
}

function bySocket(url) {
  return new Promise((resolve) => {
    const socket = new WebSocket(url.replace(/^http/, "ws"));
    socket.onopen = () => { socket.close(); resolve("101 opened"); };
    socket.onerror = () => resolve(null);
  });
}

// Those of the ways whose request a browser sends without asking the server first are marked "simple".
const SENDING = {
  "simple: fetch, text": (url, body) => over(url, { method: "POST", body }),
  "simple: fetch, no type": (url, body) => over(url, { method: "POST", body: new Blob([body]) }),
  "simple: fetch, with credentials": (url, body) => over(url, { method: "POST", body, credentials: "include" }),
  "simple: fetch, no referrer": (url, body) => over(url, { method: "POST", body, referrerPolicy: "no-referrer" }),
  "simple: no-cors, text": (url, body) => over(url, { method: "POST", body, mode: "no-cors" }),
  "simple: no-cors, no type": (url, body) => over(url, { method: "POST", body: new Blob([body]), mode: "no-cors" }),
  "simple: no-cors, no referrer": (url, body) =>
    over(url, { method: "POST", body, mode: "no-cors", referrerPolicy: "no-referrer" }),
  "simple: no-cors, form": (url, body) =>
    over(url, { method: "POST", body: new URLSearchParams([[body, ""]]), mode: "no-cors" }),
  "simple: no-cors, kept alive": (url, body) => over(url, { method: "POST", body, mode: "no-cors", keepalive: true }),
  "simple: XMLHttpRequest": (url, body) => byXhr("POST", url, body, "text/plain"),
  "simple: beacon": async (url, body) => (navigator.sendBeacon(url, body), null),
  "simple: form, text": (url, body) => byForm(url, body, "text/plain"),
  "simple: form, multipart": (url, body) => byForm(url, body, "multipart/form-data"),
  "simple: form, URL-encoded": (url, body) => byForm(url, body, "application/x-www-form-urlencoded"),
  "simple: sandbox": (url, body) => fromSandbox(url, { method: "POST", body, mode: "no-cors" }),
  "simple: worker": (url, body) => fromWorker(url, { method: "POST", body }),
  "simple: redirect": (url, body) =>
    over(`/redirect?to=${encodeURIComponent(url)}`, { method: "POST", body, mode: "no-cors" }),
  "asks: fetch, JSON": (url, body) => over(url, { method: "POST", body, headers: JSON_TYPE }),
  "asks: fetch, key": (url, body) =>
    over(url, { method: "POST", body, headers: { ...JSON_TYPE, authorization: "Bearer none" } }),
  "asks: XMLHttpRequest": (url, body) => byXhr("POST", url, body, "application/json"),
  "asks: sandbox": (url, body) => fromSandbox(url, { method: "POST", body, headers: JSON_TYPE }),
  "asks: worker": (url, body) => fromWorker(url, { method: "POST", body, headers: JSON_TYPE }),
};

const READING = {
  "fetch": (url) => over(url),
  "fetch, with credentials": (url) => over(url, { credentials: "include" }),
  "no-cors": (url) => over(url, { mode: "no-cors" }),
  "no-cors, no referrer": (url) => over(url, { mode: "no-cors", referrerPolicy: "no-referrer" }),
  "XMLHttpRequest": (url) => byXhr("GET", url),
  "EventSource": (url) => byEvents(url),
  "image": (url) => byElement("img", { src: url }),
  "script": (url) => byElement("script", { src: url }),
  "style": (url) => byElement("link", { rel: "stylesheet", href: url }),
  "frame": (url) => byElement("iframe", { src: url }),
  "sandbox": (url) => fromSandbox(url, {}),
  "worker": (url) => fromWorker(url, {}),
  "WebSocket": (url) => bySocket(url),
  "redirect": (url) => over(`/redirect?to=${encodeURIComponent(url)}`),
};

const REMOVING = {
  "fetch": (url) => over(url, { method: "DELETE" }),
  "no-cors": (url) => over(url, { method: "DELETE", mode: "no-cors" }),
  "XMLHttpRequest": (url) => byXhr("DELETE", url),
};

const WAYS = { POST: SENDING, GET: READING, DELETE: REMOVING };

function inTime(promise) {
  const late = new Promise((resolve) => setTimeout(resolve, PATIENCE, "no end of it"));
  return Promise.race([promise, late]);
}

window.attack = async (base, targets) => {
  const outcomes = [];
  for (const { method, path, body, ways } of targets) {
    const tries = (ways ?? Object.keys(WAYS[method])).map(async (by) => (
      { by, method, path, read: await inTime(WAYS[method][by](base + path, JSON.stringify(body))) }
    ));
    outcomes.push(...await Promise.all(tries));
  }
  return outcomes;
};
