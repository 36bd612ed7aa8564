import { str } from './repr.ts';
import { Markup, type Value } from './values.ts';

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '>': '&gt;',
  '<': '&lt;',
  "'": '&#39;',
  '"': '&#34;',
};

/** `markupsafe.escape`: what is marked as safe stays as it is. */
export function escapeHtml(value: Value): string {
  if (value instanceof Markup) return value.text;
  return str(value).replace(/[&><'"]/g, (character) => entities[character] ?? character);
}
