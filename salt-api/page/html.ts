/**
 * Creates markup from templates. Inserted values are escaped, except for markup that this module
 * has created.
 */

import { escapeMarkup } from '#runtime';

/** Safe markup. Only {@link html} creates objects of this class. */
export class Html {
  readonly text: string;

  /** @param text - markup that is already safe */
  constructor(text: string) {
    this.text = text;
  }
}

/** Value that can be inserted into a template. */
export type HtmlPart = Html | string | number | undefined | readonly Html[];

/**
 * Escapes text for use between tags and in quoted attributes. Characters that change the text
 * direction are replaced by visible ones.
 */
function escaped(text: string): string {
  return escapeMarkup(text).replace(/[\p{Cc}\p{Bidi_Control}]/gu, '\u{FFFD}');
}

function toText(part: HtmlPart): string {
  if (part === undefined) return '';
  if (part instanceof Html) return part.text;
  if (typeof part === 'object') return part.map(({ text }) => text).join('');
  return escaped(String(part));
}

/**
 * Creates markup from a template. The literal parts are used as markup, and inserted values are
 * escaped.
 */
export function html(strings: TemplateStringsArray, ...parts: readonly HtmlPart[]): Html {
  const texts = strings.map((string, index) => `${string}${toText(parts[index])}`);
  return new Html(texts.join(''));
}
