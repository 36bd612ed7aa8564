/** Bodies of requests: JSON, text that is JSON, forms, YAML [CONTRACT 1.1; THREATS ]. */
import { isAlias, isNode, parseDocument, visit } from 'yaml';
import { parseArgument, parseYaml } from '../master/index.ts';
import type { WireMap, WireValue } from '../minion-protocol/index.ts';
import { SaltApiError } from './errors.ts';
import { toWireValue } from './values.ts';

/** What a request brought. */
export interface Body {
  /** `undefined`: there was none. */
  readonly value: WireValue | undefined;
  readonly text: string;
}

const maxFields = 4096;

/** Reading YAML is slow: characters of a text of it. */
const maxYaml = 262_144;

/** Fields of a form that are read as the command line reads arguments. */
const typedFields: ReadonlySet<string> = new Set(['arg', 'kwarg']);

/**
 * @param isCommand whether `arg` and `kwarg` of a form are arguments of a function
 * @throws SaltApiError ERR_HTTP_FORMAT, ERR_HTTP_BODY
 */
export function parseBody(
  contentType: string | undefined,
  bytes: Uint8Array,
  isCommand: boolean,
): Body {
  if (bytes.byteLength === 0) return { value: undefined, text: '' };
  const text = decode(bytes);
  return { value: parseText(contentType, text, isCommand), text };
}

function parseText(contentType: string | undefined, text: string, isCommand: boolean): WireValue {
  const [type = ''] = (contentType ?? '').split(';');
  switch (type.trim().toLowerCase()) {
    case 'application/json':
      return parseJson(text);
    case 'text/plain':
      return parseJsonOrText(text);
    case 'application/x-www-form-urlencoded':
      return parseForm(text, isCommand);
    case 'application/x-yaml':
    case 'text/yaml':
      return parsePlainYaml(text);
    default:
      throw new SaltApiError('ERR_HTTP_FORMAT', 'bodies are JSON, YAML or forms');
  }
}

function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new SaltApiError('ERR_HTTP_BODY', 'the body is not UTF-8', { cause });
  }
}

function parseJson(text: string): WireValue {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new SaltApiError('ERR_HTTP_BODY', 'the body is not JSON', { cause });
  }
  return toWireValue(value);
}

/** Browsers name JSON so that was given as a text. */
function parseJsonOrText(text: string): WireValue {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return text;
  }
  return toWireValue(value);
}

function parseForm(text: string, isCommand: boolean): WireMap {
  const fields: WireMap = Object.create(null);
  const given = [...new URLSearchParams(text)];
  if (given.length > maxFields) throw new SaltApiError('ERR_HTTP_BODY', 'too many fields');
  for (const [name, word] of given) {
    const value = isCommand && typedFields.has(name) ? typedWord(word) : word;
    const before = fields[name];
    if (before === undefined) fields[name] = value;
    else fields[name] = Array.isArray(before) ? [...before, value] : [before, value];
  }
  return fields;
}

function typedWord(word: string): WireValue {
  if (word.length > maxYaml) throw new SaltApiError('ERR_HTTP_BODY', 'more YAML than is read');
  return toWireValue(parseArgument(word));
}

/** Neither aliases nor tags: nothing in it can grow, or be more than plain data. */
function parsePlainYaml(text: string): WireValue {
  try {
    if (text.length > maxYaml) throw new RangeError('more YAML than is read');
    // First, because it looks at the depth before anything that is recursive.
    const value = parseYaml(text);
    visit(parseDocument(text, { version: '1.1' }), (_key, node) => {
      const isMarked =
        isNode(node) && (('anchor' in node && node.anchor) || node.tag !== undefined);
      if (isAlias(node) || isMarked) throw new SyntaxError('an anchor, an alias or a tag');
    });
    return toWireValue(value);
  } catch (cause) {
    throw new SaltApiError('ERR_HTTP_BODY', 'the body is not plain YAML', { cause });
  }
}
