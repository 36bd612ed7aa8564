/**
 * Keeps the status page up to date. Sections come as markup that the server made, in which all that
 * came from elsewhere is text; nothing else may become markup (Trusted Types).
 */
export const script = `'use strict';
const trusted = window.trustedTypes?.createPolicy('saltbridge', { createHTML: (text) => text });
const live = document.getElementById('live');

function localTimes(root) {
  for (const time of root.querySelectorAll('time')) {
    time.textContent = new Date(time.dateTime).toLocaleString();
  }
}

// Whoever is in the middle of something stays there.
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
  live.textContent = stream.readyState === EventSource.CLOSED ? 'not live: load again' : 'waiting';
});
stream.addEventListener('section', (event) => {
  const { id, markup } = JSON.parse(event.data);
  replace(id, markup);
});
`;
