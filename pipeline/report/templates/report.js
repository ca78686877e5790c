"use strict";
// Without this script everything is on the page; it adds a filter by topic and tables that sort.
for (const box of document.querySelectorAll(".filter")) {
  const rows = [...box.parentElement.querySelectorAll("[data-key]")].filter(row => row.dataset.key);
  box.hidden = false;
  box.querySelector("input").addEventListener("input", event => {
    const wanted = event.target.value.toLowerCase();
    for (const row of rows) row.hidden = !row.dataset.key.toLowerCase().includes(wanted);
  });
}
for (const table of document.querySelectorAll("table.data")) {
  const body = table.tBodies[0];
  [...table.tHead.rows[0].cells].forEach((head, place) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const falls = head.ariaSort === "descending";
      for (const other of head.parentElement.cells) other.ariaSort = "none";
      head.ariaSort = falls ? "ascending" : "descending";
      const texts = new Intl.Collator("en", {numeric: true});
      const order = (a, b) => {
        const [one, two] = [a, b].map(row => row.cells[place].textContent);
        const [n, m] = [Number(one), Number(two)];
        return Number.isNaN(n) || Number.isNaN(m) ? texts.compare(one, two) : n - m;
      };
      const sorted = [...body.rows].sort((a, b) => (falls ? order(a, b) : order(b, a)));
      body.replaceChildren(...sorted);
    });
  });
}
