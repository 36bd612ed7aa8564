/** The bytes and the mode of a file as metadata writes them. */

import { writeJson } from '#runtime';
import { isPlainMap } from '../command-definition.ts';
import type { ContentBudget } from './content-budget.ts';
import { requireText } from './forms.ts';
import { renderMustache } from './mustache.ts';
import { configError } from './state-config.ts';

export interface FileContent {
  /** Text, or a value that is written as JSON. */
  readonly content: unknown;
  /** `plain` or `base64`. */
  readonly encoding: unknown;
  /** Variables of Mustache. */
  readonly context: unknown;
  readonly escapesHtml: boolean;
}

/**
 * @param budget - of the run
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
  if (!isPlainMap(context)) throw configError(`${place}: context`, 'expected a map');
  const text = utf8Of(bytes);
  if (text === undefined) throw configError(place, 'context needs content that is text');
  const options = { escapesHtml, place: `${place}: content`, budget };
  return Buffer.from(renderMustache(text, context, options));
}

/** `undefined`: it is no UTF-8. */
export function utf8Of(bytes: Buffer): string | undefined {
  const text = bytes.toString('utf8');
  return Buffer.from(text).equals(bytes) ? text : undefined;
}

function decode(content: unknown, encoding: unknown, place: string): Buffer {
  if (encoding !== 'plain' && encoding !== 'base64') {
    throw configError(`${place}: encoding`, 'expected plain or base64');
  }
  if (typeof content !== 'string') return Buffer.from(jsonText(content, place));
  if (encoding === 'plain') return Buffer.from(requireText(content, place));
  const packed = content.replaceAll(/\s/g, '');
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(packed) || packed.length % 4 !== 0) {
    throw configError(`${place}: content`, 'expected base64');
  }
  return Buffer.from(packed, 'base64');
}

/** As Python's `json.dumps(…, indent=4)` writes it. */
function jsonText(value: unknown, place: string): string {
  if (typeof value !== 'object' || value === null) {
    throw configError(`${place}: content`, 'expected text, or an object that is written as JSON');
  }
  return writeJson(value, 4);
}

const linkType = 0o120_000;
const typeBits = 0o170_000;
const permissionBits = 0o7777;

/** Six octal digits: the type of the file, and its permissions. @throws BridgeError ERR_CFN_INIT */
export function modeOf(
  given: unknown,
  place: string,
): { readonly isLink: boolean; readonly digits: string } {
  // A number has lost what it was: 000644 without quotes is 420 to YAML.
  if (typeof given !== 'string' || !/^[0-7]{3,6}$/.test(given)) {
    throw configError(place, 'expected octal digits as text, such as "000644"');
  }
  const mode = Number.parseInt(given, 8);
  return {
    isLink: (mode & typeBits) === linkType,
    digits: (mode & permissionBits).toString(8).padStart(4, '0'),
  };
}
