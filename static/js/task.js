// The form of a task: rows of criteria come and go, agents follow the project, the length of the goal is counted.
const form = document.getElementById("task-form");
const rows = document.getElementById("criteria");
const blank = document.getElementById("criterion");

function number() {
  [...rows.children].forEach((row, index) => {
    const [text, command] = row.querySelectorAll("input");
    text.setAttribute("aria-label", `Criterion ${index + 1}`);
    command.setAttribute("aria-label", `Command that proves criterion ${index + 1}`);
    row.querySelector("button").setAttribute("aria-label", `Remove criterion ${index + 1}`);
  });
}

form?.addEventListener("click", (event) => {
  const add = event.target.closest("[data-add-criterion]");
  const remove = event.target.closest("[data-remove-criterion]");
  if (add) {
    event.preventDefault();
    rows.append(blank.content.cloneNode(true));
    number();
    rows.lastElementChild.querySelector("input").focus();
  }
  if (remove) {
    const row = remove.closest(".criterion");
    const next = row.nextElementSibling || row.previousElementSibling;
    row.remove();
    number();
    (next?.querySelector("input") || form.querySelector("[data-add-criterion]")).focus();
    form.dispatchEvent(new Event("change"));
  }
});

function follow() {
  const project = form.querySelector("#project").value;
  for (const select of form.querySelectorAll("select[data-of=project]")) {
    for (const option of select.options) {
      option.hidden = option.disabled = Boolean(option.dataset.project) && option.dataset.project !== project;
    }
    if (!select.selectedOptions[0] || select.selectedOptions[0].disabled) select.value = [...select.options].find((option) => !option.disabled)?.value ?? "";
  }
}
form?.querySelector("#project").addEventListener("change", follow);

// A workspace that has a test command proposes it as the first criterion, until somebody writes another one there.
const PROPOSED = "The tests pass";
const workspace = form?.querySelector("#workspace");
const tests = () => workspace?.selectedOptions[0]?.dataset.tests ?? "";
let proposed = rows?.querySelector("input[name=command]")?.value === tests() ? tests() : "";
workspace?.addEventListener("change", () => {
  const [text, command] = rows.querySelectorAll("input");
  if (!command || command.value !== proposed || !["", PROPOSED].includes(text.value)) return;
  proposed = tests();
  command.value = proposed;
  text.value = proposed ? PROPOSED : "";
});

form?.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); form.requestSubmit(form.querySelector("[aria-keyshortcuts]")); }
});

const goal = form?.querySelector("#goal");
function count() {
  const most = Number(goal.dataset.most);
  const size = [...goal.value].length;
  const out = document.getElementById("goal-count");
  out.textContent = size > most * 0.5 ? ` ${size.toLocaleString("en")} so far.` : "";
  goal.setCustomValidity(size > most ? `The goal has ${size.toLocaleString("en")} characters; at most ${most.toLocaleString("en")} are possible.` : "");
}
goal?.addEventListener("input", count);
if (form) { follow(); count(); }
