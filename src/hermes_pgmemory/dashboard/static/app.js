// What a page does by itself; without it everything can be read and reached as well.

const typing = (element) => element.closest("input, select, textarea") !== null;

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (typing(event.target)) return;
  const fields = [...document.querySelectorAll("main input[type=search], .find input")];
  const field = fields.find((one) => one.offsetParent !== null);
  if (field) {
    event.preventDefault();
    field.focus();
    field.select();
  }
});

// The overview fetches itself anew while somebody looks at it, and soon if something
// was still being counted.
const live = document.querySelector("[data-live]");

async function refresh() {
  const part = document.querySelector("[data-live]");
  if (document.hidden || part.contains(document.activeElement)) return again();
  try {
    const answer = await fetch(location.href);
    if (!answer.ok) return again();
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.querySelector("[data-live]");
    if (fresh) part.replaceWith(document.adoptNode(fresh));
  } catch {
    // The command was ended: what is on the page stays.
    return;
  }
  again();
}

function again() {
  const waiting = document.querySelector("[data-again]") !== null;
  setTimeout(refresh, waiting ? 1000 : Number(live.dataset.live) * 1000);
}

if (live) again();
