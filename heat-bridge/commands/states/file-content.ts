/** Determines the content and the mode of a file. */

import { writeJson } from '#runtime';
import { isPlainMap } from '../command-definition.ts';
import type { ContentBudget } from './content-budget.ts';
import { requireText } from './forms.ts';
import { renderMustache } from './mustache.ts';
import { configError } from './state-config.ts';

export interface FileContent {
  /** Text, or a value to write as JSON. */
  readonly content: unknown;
  /** Encoding of the content: `plain` or `base64`. */
  readonly encoding: unknown;
  /** Values of Mustache variables. `undefined` if the content is not a template. */
  readonly context: unknown;
  readonly escapesHtml: boolean;
}

/**
 * Returns the content of a file.
 * @param budget - budget of the run
 * @throws BridgeError ERR_CFN_INIT
 */
export function fileBytes(
  { content, encoding, context, escapesHtml }: FileContent,
  place: string,
  budget: ContentBudget,
): Buffer {
  const bytes = decode(content, encoding, place);
  if (context === undefined) {
    budget.addBytes(bytes.length, place);
    return bytes;
  }
  if (!isPlainMap(context)) throw configError(`${place}: context`, 'must be a map');
  const text = utf8Of(bytes);
  if (text === undefined)
    throw configError(
      place,
      'a file with the field `context` is a Mustache template, so its content must be UTF-8 text',
    );
  const options = { escapesHtml, place: `${place}: content`, budget };
  return Buffer.from(renderMustache(text, context, options));
}

/** Decodes UTF-8, or returns `undefined` if the bytes are invalid. */
export function utf8Of(bytes: Buffer): string | undefined {
  const text = bytes.toString('utf8');
  return Buffer.from(text).equals(bytes) ? text : undefined;
}

function decode(content: unknown, encoding: unknown, place: string): Buffer {
  if (encoding !== 'plain' && encoding !== 'base64') {
    throw configError(`${place}: encoding`, 'must be plain or base64');
  }
  if (typeof content !== 'string') return Buffer.from(jsonText(content, place));
  if (encoding === 'plain') return Buffer.from(requireText(content, place));
  const packed = content.replaceAll(/\s/g, '');
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(packed) || packed.length % 4 !== 0) {
    throw configError(`${place}: content`, 'must be valid base64');
  }
  return Buffer.from(packed, 'base64');
}

/** Formats a value like Python's `json.dumps(…, indent=4)`. */
function jsonText(value: unknown, place: string): string {
  if (typeof value !== 'object' || value === null) {
    throw configError(`${place}: content`, 'must be text, or an object to write as JSON');
  }
  return writeJson(value, 4);
}

const linkType = 0o120_000;
const typeBits = 0o170_000;
const permissionBits = 0o7777;

/**
 * Parses a file mode of up to six octal digits. The first digits of a six-digit mode give the type
 * of the file.
 * @throws BridgeError ERR_CFN_INIT
 */
export function modeOf(
  given: unknown,
  place: string,
): { readonly isLink: boolean; readonly digits: string } {
  // Reject numbers: YAML parses 000644 without quotes as the decimal number 420.
  if (typeof given !== 'string' || !/^[0-7]{3,6}$/.test(given)) {
    throw configError(place, 'the file mode must be octal digits in quotes, such as "000644"');
  }
  const mode = Number.parseInt(given, 8);
  return {
    isLink: (mode & typeBits) === linkType,
    digits: (mode & permissionBits).toString(8).padStart(4, '0'),
  };
}
