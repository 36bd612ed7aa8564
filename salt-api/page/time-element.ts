import { type Html, html } from './html.ts';

/** Returns a time in UTC. The script of the page converts it to the reader's local time. */
export function timeElement(at: number): Html {
  const text = new Date(at).toISOString();
  return html`<time datetime="${text}">${text.slice(0, 19).replace('T', ' ')} UTC</time>`;
}
