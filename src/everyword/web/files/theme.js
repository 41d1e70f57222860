// Set before anything is drawn, so that no page flashes in the wrong colours.
const theme = localStorage.getItem("everyword theme");
if (theme) document.documentElement.dataset.theme = theme;
if (localStorage.getItem("everyword inspector") === "closed") document.documentElement.dataset.inspector = "closed";
