/** Checks the user-data of a service. cloud-init merges it with the user-data of the bridge. */

import { BridgeError } from '../errors.ts';
import { bridgeLimits } from '../limits.ts';

const maxDepth = 8;
/** Number of characters that a part counts as, in addition to its text. */
const charactersPerPart = 4_000;
/**
 * Maximum length of the header of a part, in characters. The text after this length is ignored.
 */
const maxHeader = 8_192;

const ownKey = 'salt_minion';
/** The name of the key, also with escaped letters or line breaks as in quoted text of YAML. */
const ownName = new RegExp(
  Array.from(ownKey, (letter) => {
    const code = letter
      .charCodeAt(0)
      .toString(16)
      .replace(/[a-f]/, (it) => `[${it}${it.toUpperCase()}]`);
    return String.raw`(?:${letter}|\\{1,4}(?:x|u00|U000000)${code})`;
  }).join(String.raw`(?:\\\r?\n\s*)*`),
);
/**
 * Matches a line at the left margin that is, or may be, the key `salt_minion` of the outermost map.
 * Other lines are indented or empty, or contain a comment, the start of the document, an item of a
 * list, the end of a list or map, or another key.
 */
const uncertainLine =
  /^(?! |$|#|---[ \t]*(?:#|$)|-(?: |$)|[\]}]|(?!["']?salt_minion["']?[ \t]*:)(?:"[^"\\\r\n]*"|'[^'\r\n]*'|[A-Za-z_][\w.-]*)[ \t]*:(?:[ \t]|$))/m;
/** Matches the beginning of the first line that is neither empty, a comment, nor `---`. */
const firstLine = /^(?!(?:---)?[ \t]*(?:#|$))/m;

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
  if (new UserDataSearch().hasSaltMinion(text)) {
    throw userDataError(
      'remove the section `salt_minion`, which would override the settings of the bridge; in POST /bridge/v1/enrolments, pass its `conf` and `grains` as `config` and `grains`. In JSON, in a template, in an archive and in a patch, the name `salt_minion` must not occur at all',
    );
  }
}

function userDataError(problem: string): BridgeError {
  return new BridgeError('ERR_ENROLL_ARGS', `cannot merge the given user-data: ${problem}`);
}

/** Search for the key `salt_minion` in user-data. It takes a limited number of steps. */
class UserDataSearch {
  #left = bridgeLimits.mergedUserData.total ?? Infinity;

  /**
   * Whether user-data contains a cloud-config with the key `salt_minion`, directly or in one of its
   * parts. Also returns true for some forms of user-data that only may contain this key. They would
   * have to be parsed, which takes too long.
   * @throws BridgeError ERR_ENROLL_ARGS if there are too many parts
   */
  hasSaltMinion(text: string, depth = 0): boolean {
    if (depth > maxDepth) return false;
    this.#spend(text);
    const content = text.replace(/^## template: ?jinja[^\n]*\n/i, '');
    if (/^(?:content-type|mime-version):/i.test(content)) {
      return this.#partsOfMessage(content, 0).some((part) => this.hasSaltMinion(part, depth + 1));
    }
    if (!content.startsWith('#cloud-config') || !ownName.test(content)) return false;
    if (/^#cloud-config-(?:archive|jsonp)/.test(content)) return true;
    const lines = content.replaceAll('\x85', '\n');
    // If the first line is indented, the keys of the outermost map are not at the left margin.
    const first = firstLine.exec(lines);
    const isIndented = first !== null && /[ \t]/.test(lines.charAt(first.index));
    return isIndented || uncertainLine.test(lines);
  }

  /**
   * Returns the decoded parts of a MIME message. If the message is not multipart, returns its only
   * part.
   */
  #partsOfMessage(message: string, depth: number): readonly string[] {
    if (depth > maxDepth) return [];
    this.#spend(message);
    const blank = /\r?\n\r?\n/.exec(message);
    const head = message.slice(0, Math.min(blank?.index ?? message.length, maxHeader));
    const body = blank === null ? '' : message.slice(blank.index + blank[0].length);
    const headers = head.replace(/\r?\n[ \t]+/g, ' ');
    const [, boundary] = /boundary="?([^"\r\n;]+)"?/i.exec(headers) ?? [];
    if (boundary !== undefined) {
      const between = body.split(`--${boundary}`).slice(1);
      return between.flatMap((part) => this.#partsOfMessage(part.replace(/^\r?\n/, ''), depth + 1));
    }
    const text = decodeBody(body, headers);
    const isConfig = /content-type:\s*text\/cloud-config(?![\w-])/i.test(headers);
    return [isConfig && !text.startsWith('#cloud-config') ? `#cloud-config\n${text}` : text];
  }

  #spend(text: string): void {
    this.#left -= text.length + charactersPerPart;
    if (this.#left < 0)
      throw userDataError('it has too many parts or levels of parts; combine some of them');
  }
}

function decodeBody(body: string, headers: string): string {
  const [, encoding = ''] = /content-transfer-encoding:\s*([\w-]+)/i.exec(headers) ?? [];
  if (encoding.toLowerCase() === 'base64') return Buffer.from(body, 'base64').toString('utf8');
  return encoding.toLowerCase() === 'quoted-printable' ? decodeQuotedPrintable(body) : body;
}

const equalsSign = 0x3d;

/** Decodes quoted-printable text [RFC 2045 6.7]. */
function decodeQuotedPrintable(body: string): string {
  const encoded = Buffer.from(body.replace(/=\r?\n/g, ''));
  const decoded = Buffer.alloc(encoded.length);
  let end = 0;
  for (let at = 0; at < encoded.length; at += 1) {
    const byte = encoded[at] ?? 0;
    const high = hexDigit(encoded[at + 1]);
    const low = hexDigit(encoded[at + 2]);
    const isEscape = byte === equalsSign && high !== -1 && low !== -1;
    decoded[end] = isEscape ? 16 * high + low : byte;
    end += 1;
    if (isEscape) at += 2;
  }
  return decoded.toString('utf8', 0, end);
}

/** Returns the value of the ASCII code of a hexadecimal digit, or -1 for any other code. */
function hexDigit(code = 0): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30;
  const lower = code | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x61 + 10 : -1;
}
