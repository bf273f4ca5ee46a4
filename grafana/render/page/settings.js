// What is drawn: `draw.mjs` puts it on the page before this program runs.
export const settings = window.settings; // {dashboard, prometheus, width, from, to, scrapeSeconds, variables}
export const problems = (window.problems = []);
export const drawn = (window.drawn = []);
