/* Requests to the server's routes, which `docs/reference/http.md` describes, and files that come from it. */

/** @type {Hetero["reasonIn"]} */
function reasonIn(text, otherwise) {
  try {
    return JSON.parse(text).detail || text;
  } catch (_error) {
    return text || otherwise;
  }
}

/* The answer to a request, or an error with the server's reason and the status; without one where it cannot be reached. */
/** @type {Hetero["request"]} */
async function request(address, options = {}) {
  const answer = await fetch(address, { cache: "no-store", ...options });
  const { ok, status } = answer;
  if (ok) return answer;
  const reason = reasonIn(await answer.text(), `The server answers with an error (${status}).`);
  throw Object.assign(new Error(reason), { status });
}

/** @param {string} what @param {object | null} [body] @param {AskOptions} [options] */
async function ask(what, body, options = {}) {
  const { document = page.view.document, signal } = options;
  const posted = body && {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  };
  const answer = await request(`/d/${encodeURIComponent(document)}/${what}`, { ...posted, signal });
  return answer.status === 204 ? null : answer.json();
}

/** @type {Hetero["decode"]} */
const decode = (text, Type) => new Type(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);

/** A file of the server's, for the person to keep. @type {Hetero["download"]} */
async function download(address) {
  const answer = await request(address);
  const name = /filename\*=UTF-8''([^;]*)/.exec(answer.headers.get("content-disposition") || "")?.[1] || "download";
  return save(await answer.blob(), decodeURIComponent(name));
}

/** @type {Hetero["save"]} */
function save(blob, name) {
  const link = editor.make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  return name;
}

/** @type {Hetero["component"]} */
const component = (type, props) => ({ namespace: "hetero_controls", type, props });

/* What went wrong, over the graph. Work that a person ended is no fault, and a server that is gone has a line of its own. */
/** @type {Hetero["complain"]} */
function complain(error) {
  const { status, message } = /** @type {{ status?: number, message: string }} */ (error);
  if (!status || status === 409) return;
  note(message, { className: "note bad", role: "alert" });
}

/** @type {Hetero["tell"]} */
const tell = (text) => note(text, { className: "note", role: "status" });

/** @param {string} text @param {Record<string, string>} how */
function note(text, how) {
  const close = ["button", { className: "close", "aria-label": "Close", "data-command": "close-notice" }, "×"];
  const tree = [["div", how, ["div", { className: "message" }, text], close]];
  editor.set("notice", { children: component("StaticHtml", { tree }) });
}

editor.provide({ request, reasonIn, ask: /** @type {Ask} */ (ask), decode, download, save, component, complain, tell });
