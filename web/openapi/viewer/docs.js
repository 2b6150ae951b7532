// Shows the OpenAPI document of the server that this page came from, and asks for a key where that wants one.

const viewer = document.querySelector("rapi-doc");
const form = document.querySelector("form");
const message = document.querySelector("p");

async function show(key) {
  const answer = await fetch("openapi.json", { headers: key ? { authorization: `Bearer ${key}` } : {} });
  form.hidden = answer.status !== 401;
  message.hidden = answer.ok || (answer.status === 401 && !key);
  message.textContent = `${answer.status} ${answer.statusText}`;
  if (!answer.ok) return;
  await customElements.whenDefined("rapi-doc");
  await viewer.loadSpec(await answer.json());
  if (key) viewer.setApiKey("bearer", key);
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  show(form.querySelector("input").value);
});
show("");
