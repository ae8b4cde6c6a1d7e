// Runs before the first paint: the colours that were switched to, so that the page does not flash.
try {
  const theme = JSON.parse(localStorage.getItem("newel:theme"));
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // without storage: the system's preference
}
