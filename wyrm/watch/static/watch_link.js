// The part of the address after "#": what the page shows, so that a link shows the same.

// Return what a link asks for; names that it lacks are absent.
function readLink() {
  const found = {};
  for (const [name, value] of new URLSearchParams(location.hash.slice(1))) found[name] = value;
  return found;
}

// Put what the page shows into its address, without an entry in the history. Empty values are left out.
function writeLink(values) {
  const kept = Object.entries(values).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const hash = new URLSearchParams(kept).toString().replaceAll("%2C", ",");
  history.replaceState(null, "", hash === "" ? location.pathname : `#${hash}`);
}
