// Runs before the first paint, so that the page does not flash in the wrong colours.
const theme = localStorage.getItem("everyword theme");
if (theme) document.documentElement.dataset.theme = theme;
if (localStorage.getItem("everyword inspector") === "closed") document.documentElement.dataset.inspector = "closed";
