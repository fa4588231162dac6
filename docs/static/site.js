// Reading by keyboard and by screen readers, where the theme leaves gaps.
document.addEventListener("DOMContentLoaded", () => {
  for (const each of document.querySelectorAll("pre, .table-wrapper")) each.tabIndex = 0; // scrolled by arrow keys
  document.querySelector("aside.sidebar-drawer")?.setAttribute("aria-label", "Pages");
  document.querySelector("aside.toc-drawer")?.setAttribute("aria-label", "On this page");
  for (const list of document.querySelectorAll("dt.sig dl")) { // the lines of a signature are no definitions
    list.setAttribute("role", "presentation");
    for (const line of list.children) line.setAttribute("role", "presentation");
  }
});
