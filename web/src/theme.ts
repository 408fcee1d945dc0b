// The button that changes between light and dark. Until it is used, the system decides.

const system = matchMedia("(prefers-color-scheme: dark)");

export function addTheme(): void {
  const toggle = document.getElementById("theme") as HTMLButtonElement;
  const dark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const show = () => {
    toggle.textContent = dark() ? "Light" : "Dark";
    toggle.setAttribute("aria-label", `Use ${dark() ? "light" : "dark"} colours`);
  };
  toggle.addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    show();
  });
  system.addEventListener("change", show);
  toggle.hidden = false;
  show();
}
