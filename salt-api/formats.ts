/** Response formats. The client selects one by the header `Accept`. */
import { writeMarkedJson } from '#master';
import type { WireValue } from '#minion-protocol';
import { SaltApiError } from './errors.ts';
import { jsonText } from './json-text.ts';
import { yamlText } from './yaml-text.ts';

/** A response format. */
export interface Format {
  readonly type: 'application/json' | 'application/x-yaml';
  /** Encodes a small value. {@link AnswerWriter} can encode values of any size. */
  readonly write: (value: WireValue) => string;
}

const json: Format = { type: 'application/json', write: jsonText };
const yaml: Format = {
  type: 'application/x-yaml',
  write: (value) => yamlText(writeMarkedJson(value)),
};

const formats: ReadonlyMap<string, Format> = new Map([
  ['application/json', json],
  ['application/x-yaml', yaml],
  ['application/*', json],
  ['*/*', json],
]);

/**
 * Returns the format that a client accepts. It is called before any work is done.
 * @throws SaltApiError ERR_HTTP_FORMAT
 */
export function formatFor(accept: string | undefined): Format {
  if (accept === undefined || accept.trim() === '') return json;
  for (const name of acceptedTypes(accept)) {
    const format = formats.get(name);
    if (format !== undefined) return format;
  }
  throw new SaltApiError(
    'ERR_HTTP_FORMAT',
    'the header Accept permits neither JSON nor YAML; responses have one of these formats',
  );
}

/**
 * Whether the client is a browser that requests a page. A client that accepts every type is not
 * treated as a browser.
 */
export function wantsPage(accept: string | undefined): boolean {
  return accept !== undefined && acceptedTypes(accept).includes('text/html');
}

/** Whether the client prefers a page over all formats for programs. */
export function prefersPage(accept: string | undefined): boolean {
  if (accept === undefined) return false;
  const wanted = acceptedTypes(accept).find((name) => name === 'text/html' || formats.has(name));
  return wanted === 'text/html';
}

/** Returns the types in an `Accept` header, the most preferred first. */
function acceptedTypes(accept: string): string[] {
  return accept
    .slice(0, 1024)
    .split(',')
    .map((part) => {
      const [type = '', ...parameters] = part.split(';').map((text) => text.trim().toLowerCase());
      const quality = parameters.find((text) => text.startsWith('q='));
      return { type, quality: quality === undefined ? 1 : Number(quality.slice(2)) };
    })
    .filter(({ quality }) => quality > 0)
    .sort((a, b) => b.quality - a.quality)
    .map(({ type }) => type);
}
