/** Checks the user-data of a service. cloud-init merges it with the user-data of the bridge. */

import { parseYaml } from '#master';
import { isPlainMap } from '../commands/command-definition.ts';
import { BridgeError } from '../errors.ts';

const maxDepth = 8;
/**
 * Maximum size of a cloud-config that is parsed as YAML, in characters. Larger ones are only
 * searched for the key `salt_minion`.
 */
const maxParsed = 16_384;
const ownKey = /(?:^|[\s{,])["']?salt_minion["']?\s*:/m;

/**
 * Rejects user-data that cannot be merged with the user-data of the bridge: binary data, or a
 * cloud-config with the key `salt_minion`. This key would replace the minion configuration of the
 * bridge.
 * @throws BridgeError ERR_ENROLL_ARGS
 */
export function requireMergeable(text: string, format: string): void {
  if (format === 'none')
    throw userDataError('the format `none` creates no user-data; choose another format');
  if (text.includes('\0') || text.includes('\ufffd')) {
    throw userDataError(
      'the given user-data is not text; decompress it, or pass gzip data as a file to `saltbridge enroll create`',
    );
  }
  if (hasSaltMinion(text, 0)) {
    throw userDataError(
      'remove the section `salt_minion`, which would override the settings of the bridge; in POST /bridge/v1/enrolments, pass its `conf` and `grains` as `config` and `grains`',
    );
  }
}

function userDataError(problem: string): BridgeError {
  return new BridgeError('ERR_ENROLL_ARGS', `cannot merge the given user-data: ${problem}`);
}

/**
 * Whether user-data contains a cloud-config with the key `salt_minion`, directly or in one of its
 * parts.
 */
function hasSaltMinion(text: string, depth: number): boolean {
  if (depth > maxDepth) return false;
  const content = text.replace(/^## template: ?jinja[^\n]*\n/i, '');
  if (/^(?:content-type|mime-version):/i.test(content)) {
    return partsOfMessage(content, 0).some((part) => hasSaltMinion(part, depth + 1));
  }
  if (content.startsWith('#cloud-config-archive')) {
    const list = tryParse(content);
    if (!Array.isArray(list)) return ownKey.test(content);
    return list.some((it) => {
      const part: unknown = isPlainMap(it) ? it.content : it;
      const isConfig = isPlainMap(it) && String(it.type ?? '').includes('cloud-config');
      return typeof part === 'string' && hasSaltMinion(asConfig(part, isConfig), depth + 1);
    });
  }
  if (!content.startsWith('#cloud-config')) return false;
  // Without the name, and without a backslash that could begin an escaped form of it, the key
  // cannot occur.
  if (!/salt_minion|\\/.test(content)) return false;
  const config = content.startsWith('#cloud-config-jsonp') ? undefined : tryParse(content);
  // A Jinja template or a patch cannot be parsed, so search it for the name.
  if (!isPlainMap(config)) return ownKey.test(content) || content.includes('/salt_minion');
  return Object.hasOwn(config, 'salt_minion');
}

function asConfig(text: string, isConfig: boolean): string {
  return isConfig && !text.startsWith('#cloud-config') ? `#cloud-config\n${text}` : text;
}

function tryParse(text: string): unknown {
  if (text.length > maxParsed) return undefined;
  try {
    return parseYaml(text);
  } catch {
    return undefined;
  }
}

/**
 * Returns the decoded parts of a MIME message. If the message is not multipart, returns its only
 * part.
 */
function partsOfMessage(message: string, depth: number): readonly string[] {
  if (depth > maxDepth) return [];
  const [head = '', ...rest] = message.split(/\r?\n\r?\n/);
  const body = rest.join('\n\n');
  const headers = head.replace(/\r?\n[ \t]+/g, ' ');
  const [, boundary] = /boundary="?([^"\r\n;]+)"?/i.exec(headers) ?? [];
  if (boundary !== undefined) {
    const between = body.split(`--${boundary}`).slice(1);
    return between.flatMap((part) => partsOfMessage(part.replace(/^\r?\n/, ''), depth + 1));
  }
  const text = decodeBody(body, headers);
  return [asConfig(text, /content-type:\s*text\/cloud-config(?![\w-])/i.test(headers))];
}

function decodeBody(body: string, headers: string): string {
  const [, encoding = ''] = /content-transfer-encoding:\s*([\w-]+)/i.exec(headers) ?? [];
  if (encoding.toLowerCase() === 'base64') return Buffer.from(body, 'base64').toString('utf8');
  if (encoding.toLowerCase() !== 'quoted-printable') return body;
  return body
    .replace(/=\r?\n/g, '')
    .replace(/=([0-9A-F]{2})/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
}
