// Set before anything is drawn, so that no page flashes in the wrong colours.
const theme = localStorage.getItem("holdfast theme");
if (theme) document.documentElement.dataset.theme = theme;
if (localStorage.getItem("holdfast inspector") === "closed") document.documentElement.dataset.inspector = "closed";
