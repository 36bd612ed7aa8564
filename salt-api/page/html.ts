/** Markup from templates. Inserted values become text, unless they are markup from this module. */

import { escapeMarkup } from '#runtime';

/** Safe markup. Only {@link html} creates it. */
export class Html {
  readonly text: string;

  /** @param text markup that is already safe */
  constructor(text: string) {
    this.text = text;
  }
}

/** Values that a template may contain. */
export type HtmlPart = Html | string | number | undefined | readonly Html[];

/** Escapes text for use between tags and in quoted attributes. Direction marks become visible. */
function escaped(text: string): string {
  return escapeMarkup(text).replace(/[\p{Cc}\p{Bidi_Control}]/gu, '\u{FFFD}');
}

function toText(part: HtmlPart): string {
  if (part === undefined) return '';
  if (part instanceof Html) return part.text;
  if (typeof part === 'object') return part.map(({ text }) => text).join('');
  return escaped(String(part));
}

/** Creates markup from a template. Its literal parts are markup, inserted values are text. */
export function html(strings: TemplateStringsArray, ...parts: readonly HtmlPart[]): Html {
  const texts = strings.map((string, index) => `${string}${toText(parts[index])}`);
  return new Html(texts.join(''));
}
