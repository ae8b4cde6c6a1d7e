// Runs before the first paint and sets the stored colour theme, so that the page does not flash.
try {
  const theme = JSON.parse(localStorage.getItem("newel:theme"));
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // storage is disabled: the system's preference applies
}
