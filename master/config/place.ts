import type { OptionOrigin } from './errors.ts';

/** `file:line`, or the file alone. */
export function placeOf({ file, line }: Pick<OptionOrigin, 'file' | 'line'>): string {
  return line === 0 ? file : `${file}:${line}`;
}

/** The message of a problem or a warning without the place in front, where that is told beside it. */
export function withoutPlace(it: OptionOrigin & { readonly message: string }): string {
  const place = `${placeOf(it)}: `;
  return it.message.startsWith(place) ? it.message.slice(place.length) : it.message;
}
