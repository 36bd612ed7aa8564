/** Markup from templates: whatever is put into one is text, unless it is markup made here. */

import { escapeMarkup } from '#runtime';

/** Markup that may be sent. Only {@link html} makes it. */
export class Html {
  readonly text: string;

  /** @param text safe as it is */
  constructor(text: string) {
    this.text = text;
  }
}

/** What a template may hold. */
export type HtmlPart = Html | string | number | undefined | readonly Html[];

/** Text as text, between tags and in quoted attributes; what changes its direction is shown. */
function escaped(text: string): string {
  return escapeMarkup(text).replace(/[\p{Cc}\p{Bidi_Control}]/gu, '\u{FFFD}');
}

function toText(part: HtmlPart): string {
  if (part === undefined) return '';
  if (part instanceof Html) return part.text;
  if (typeof part === 'object') return part.map(({ text }) => text).join('');
  return escaped(String(part));
}

/** A template: what stands in it is markup, what is put in is text. */
export function html(strings: TemplateStringsArray, ...parts: readonly HtmlPart[]): Html {
  const texts = strings.map((string, index) => `${string}${toText(parts[index])}`);
  return new Html(texts.join(''));
}
