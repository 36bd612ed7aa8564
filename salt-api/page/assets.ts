/**
 * Script that updates the status page. The server sends changed sections as markup, with all
 * external data escaped. Trusted Types prevent the script from inserting any other markup.
 */
export const script = `'use strict';
const trusted = window.trustedTypes?.createPolicy('saltbridge', { createHTML: (text) => text });
const live = document.getElementById('live');

function localTimes(root) {
  for (const time of root.querySelectorAll('time')) {
    time.textContent = new Date(time.dateTime).toLocaleString();
  }
}

// Replaces a section, and keeps its focused element and its open details.
function replace(id, markup) {
  const section = document.getElementById(id);
  if (section === null) return;
  const focused = section.contains(document.activeElement) ? document.activeElement.id : '';
  const open = [...section.querySelectorAll('details[open]')].map((it) => it.id);
  section.innerHTML = trusted === undefined ? markup : trusted.createHTML(markup);
  for (const one of open) document.getElementById(one)?.setAttribute('open', '');
  if (focused !== '') document.getElementById(focused)?.focus();
  localTimes(section);
}

localTimes(document);
const stream = new EventSource(document.currentScript.dataset.stream);
stream.addEventListener('open', () => { live.textContent = 'live'; });
stream.addEventListener('error', () => {
  live.textContent = stream.readyState === EventSource.CLOSED ? 'no longer updated: reload the page' : 'waiting';
});
stream.addEventListener('section', (event) => {
  const { id, markup } = JSON.parse(event.data);
  replace(id, markup);
});
`;

/** Style sheet of the status page, for light and dark mode. */
export const style = `:root {
  color-scheme: light dark;
  --text: light-dark(#1d2327, #e4e7ea);
  --ground: light-dark(#f6f7f8, #15191c);
  --card: light-dark(#ffffff, #1e2428);
  --line: light-dark(#d5dade, #39424a);
  --accent: light-dark(#0b6e99, #5cc0ec);
  --good: light-dark(#1a6b2f, #6fd08a);
  --bad: light-dark(#a3200d, #ff9484);
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 0 1rem 2rem; color: var(--text); background: var(--ground); font: 1rem/1.45 system-ui, sans-serif; }
header { display: flex; flex-wrap: wrap; align-items: center; gap: 1rem; }
header h1 { margin-right: auto; font-size: 1.4rem; }
main { display: grid; gap: 1rem; }
main > p { margin: 0; }
section { padding: 0 1rem 1rem; background: var(--card); border: 1px solid var(--line); border-radius: .5rem; min-width: 0; }
h2 { margin: .8rem 0 .5rem; font-size: 1.05rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: 0; }
dt { font-weight: 600; }
dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; text-align: left; }
caption { text-align: left; }
th, td { padding: .3rem .6rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th[scope=row] { font-weight: 600; overflow-wrap: anywhere; }
code { font-size: .85rem; overflow-wrap: anywhere; }
time, td:has(form) { white-space: nowrap; }
td form { display: inline-block; margin-right: .4rem; }
progress { accent-color: var(--accent); width: 12rem; max-width: 40vw; vertical-align: middle; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(9rem, 1fr)); gap: 1rem; }
figure { margin: 0; }
svg { width: 100%; height: 2.5rem; border-bottom: 1px solid var(--line); }
polyline { fill: none; stroke: var(--accent); stroke-width: 1.5; vector-effect: non-scaling-stroke; }
button, input, select { font: inherit; color: inherit; padding: .25rem .7rem; border: 1px solid var(--line); border-radius: .3rem; background: var(--ground); }
button { cursor: pointer; }
a { color: var(--accent); }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
.bad { color: var(--bad); }
.good { color: var(--good); }
.notice { padding: .5rem 1rem; border: 1px solid var(--accent); border-radius: .5rem; }
.login { max-width: 22rem; margin: 15vh auto 0; }
.login form { display: grid; gap: .8rem; }
.login label { display: grid; gap: .2rem; }
`;

/** Icon of the status page: two halves and the bridge between them. */
export const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><path fill="none" stroke="#0b6e99" stroke-width="4" d="M4 28V12h8v16M20 28V12h8v16M8 12c0-10 16-10 16 0"/></svg>
`;
