// Reading by keyboard and by screen readers, where the theme leaves gaps.
document.addEventListener("DOMContentLoaded", () => {
  for (const each of document.querySelectorAll("pre, .table-wrapper")) each.tabIndex = 0; // scrolled by arrow keys
  for (const each of document.querySelectorAll(".highlight-text pre")) // a longer line is a sentence
    if (each.textContent.split("\n").some((line) => line.length > 100)) each.classList.add("wraps");
  document.querySelector("aside.sidebar-drawer")?.setAttribute("aria-label", "Pages");
  document.querySelector("aside.toc-drawer")?.setAttribute("aria-label", "On this page");
  for (const each of document.querySelectorAll("dt.sig dl, dt.sig dd")) { // lines of a signature are no definitions
    const line = document.createElement("span");
    line.className = each.tagName === "DD" ? "sig-line" : "sig-lines";
    line.append(...each.childNodes);
    each.replaceWith(line);
  }
});
